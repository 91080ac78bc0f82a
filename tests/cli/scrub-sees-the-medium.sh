#!/usr/bin/env bash
# A file system's page cache is warm with what was written; the disk below it rots. Readers do not see that, and do
# not count as verification of the disk: a scrub finds it, in a server while clients read, and alone.
. "$(dirname "$0")/common.sh"
. "$here/loop.sh"
requires_loop
requires debugfs
can_make ext4 || skip "there is no ext4 here"
truncate -s 192M "$dir/disk"
mkfs.ext4 -q -F -b 4096 "$dir/disk" || fail "mkfs.ext4"
attach off "$dir/disk"
pool=$dir/inner/pool
export QUINTET_REPOSITORY=$pool
mkdir "$dir/src"
noise "$dir/src/noise" 24
new_pool --parity 0
exits 0 q backup "$dir/src"
sync -f "$pool"
container=$(find "$pool/containers" -type f -size +8M | sort | sed -n 1p)
[ -n "$container" ] || fail "no container"
# Where the middle of the container lies on the disk.
block=$(($(stat -c %s "$container") / 2 / 4096))
place=$(debugfs -R "bmap ${container#"$dir/inner"} $block" "$dir/disk" 2>/dev/null | tr -d ' ')
case $place in '' | *[!0-9]*) skip "debugfs does not say where the file lies" ;; esac
cat "$container" >/dev/null
before=$(sha256sum <"$container")
dd if=/dev/urandom of="$dir/disk" bs=4096 seek="$place" count=1 conv=notrunc status=none
[ "$before" = "$(sha256sum <"$container")" ] || skip "the cache of the file system is not warm"

# Readers, all from the cache; a server's scrub believes none of them.
start_server --nbd-socket "$dir/nbd"
exits 0 q scrub start
exits 0 q restore "latest:$dir/src" --target "$dir/back"
cmp "$dir/src/noise" "$dir/back/noise" || fail "not what was stored"
is_at_rest() { q scrub status | matches 'at rest'; }
wait_until is_at_rest
q scrub status --json | matches '"damaged":[1-9]' || fail "the scrub saw the cache: $(q scrub status)"
stop_server
