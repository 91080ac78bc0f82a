#!/usr/bin/env bash
# A volume, an image and a stream never share a name, and where an older pool or a copy has such a pair, the name is the volume's
# for every command; the image is NAME@latest.
. "$(dirname "$0")/common.sh"
other_pool
noise "$dir/disk" 1 && noise "$dir/second" 1
new_pool
exits 0 q import "$dir/disk" image
exits 0 q volume create volume --size 1M
exits 1 q import "$dir/disk" volume
says "name of a volume"
exits 1 q import "$dir/disk" volume --dry-run
exits 1 q volume create image --size 1M
says "name of an image"
exits 1 q volume clone image@latest image
exits 1 q backup --stdin --stdin-filename volume
says "name of a volume"
exits 1 q backup --stdin --stdin-filename image --allow-empty
says "name of an image"
exits 0 q backup --stdin --stdin-filename stream --allow-empty
exits 1 q import "$dir/disk" stream
says "name of a stream"
exits 0 q volume clone image copy
# A copy brings an image whose name a volume has.
new_other_pool
exits 0 o volume create image --size 2M
exits 0 q copy image
exits 0 o volume clone image from-volume
[ "$(o volume list --json | grep '"name":"from-volume"' | grep -c '"size_bytes":2097152')" -eq 1 ] ||
    fail "clone: $(o volume list --json)"
for command in "dump image" "diff image image@latest"; do
    # shellcheck disable=SC2086
    exits 1 o $command
    says "image is a volume"
    says "image@latest"
done
# Which has the present contents of the volume.
exits 0 o export image "$dir/of-volume"
[ "$(stat -c %s "$dir/of-volume")" -eq 2097152 ] || fail "the volume"
exits 0 o export image@latest "$dir/exported"
cmp "$dir/disk" "$dir/exported" || fail "the image's newest state"
exits 0 o volume clone image@latest from-image
exits 0 o volume snapshot image@now
exits 0 o export image@now "$dir/exported2"
[ "$(stat -c %s "$dir/exported2")" -eq 2097152 ] || fail "the volume's state"
# Its own series goes on.
exits 0 o import "$dir/second" image
exits 0 o export image@latest "$dir/exported3"
cmp "$dir/second" "$dir/exported3" || fail "a new state of the image"
