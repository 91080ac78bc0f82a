#!/usr/bin/env bash
# `latest` is the newest snapshot of files that the filters leave, in every command and in mounts; of images and streams
# only where there are no files. A search through nothing is no success.
. "$(dirname "$0")/common.sh"
new_pool
exits 1 q find '*'
says "nothing was searched"
noise "$dir/disk" 1
exits 0 q import "$dir/disk" disk --host one
exits 1 q find '*'
exits 1 q find '*' --snapshot latest
exits 0 q dump latest --target "$dir/dumped"
cmp "$dir/disk" "$dir/dumped" || fail "an image is the latest where nothing else is"
mkdir "$dir/a" "$dir/b" && echo one >"$dir/a/file" && echo two >"$dir/b/file"
exits 0 q backup "$dir/a" --host one --tag t
exits 0 q backup "$dir/b" --host two
echo stream | q backup --stdin --stdin-filename stream --host one --tag t >/dev/null
exits 0 q import "$dir/disk" disk --host two --force
# is WHERE FILTER...: every command's latest has the file of that directory.
is() {
    local where=$dir/$1/file
    shift
    exits 0 q ls latest "$where" "$@"
    says "$where"
    exits 0 q find file --snapshot latest "$@"
    says "$where"
    [ "$(q dump latest "$where" "$@")" = "$(cat "$where")" ] || fail "dump"
    rm -rf "$dir/back"
    exits 0 q restore latest --target "$dir/back" "$@"
    cmp "$where" "$dir/back$where" || fail "restore"
    exits 0 q diff latest latest "$@"
    says "0 files changed"
    exits 0 q diff "latest:${where%/file}" "latest:${where%/file}" "$@"
}
is b
is a --host one
is a --tag t
is a --path "$dir/a"
is b --host two
exits 1 q find file --host nobody
exits 1 q ls latest --host nobody
exits 1 q find file --snapshot "$(q snapshots --json --path disk | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p' | head -n 1)"
says "not of files"
show --read-only
cmp "$mount/snapshots/latest$dir/b/file" "$dir/b/file" || fail "mount"
cmp "$mount/hosts/one/latest$dir/a/file" "$dir/a/file" || fail "mount, of a host"
cmp "$mount/tags/t/latest$dir/a/file" "$dir/a/file" || fail "mount, of a tag"
unshow
