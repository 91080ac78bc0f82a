#!/usr/bin/env bash
# A file system image: import, export, every byte, holes kept, and e2fsck has nothing to say.
. "$(dirname "$0")/common.sh"
requires mkfs.ext4 e2fsck cmp
real_tree "$dir/tree" 60
truncate -s 200M "$dir/disk.img"
mkfs.ext4 -q -F -d "$dir/tree" "$dir/disk.img"
new_pool
exits 0 q import -f raw "$dir/disk.img" disk
exits 0 q export -f raw disk "$dir/out.img"
cmp "$dir/disk.img" "$dir/out.img"
e2fsck -fn "$dir/out.img" >/dev/null 2>&1 || fail "e2fsck complains"
[ "$(stat -c %b "$dir/out.img")" -le $(($(stat -c %b "$dir/disk.img") * 11 / 10 + 64)) ] ||
    fail "$(stat -c %b "$dir/out.img") blocks for $(stat -c %b "$dir/disk.img")"
before=$(stored_bytes)
exits 0 q import --force "$dir/disk.img" disk
[ $(($(stored_bytes) - before)) -lt 131072 ] || fail "the same image added $(($(stored_bytes) - before)) bytes"
# An existing file is not overwritten unasked.
exits 1 q export disk "$dir/out.img"
exits 0 q export --force disk "$dir/out.img"
cmp "$dir/disk.img" "$dir/out.img"
# An odd size, to the byte.
head -c 1234567 "$dir/disk.img" >"$dir/odd.img"
exits 0 q import "$dir/odd.img" odd
exits 0 q export odd "$dir/odd.out"
cmp "$dir/odd.img" "$dir/odd.out"
: >"$dir/zero.img"
exits 0 q import "$dir/zero.img" nothing
exits 0 q export nothing "$dir/zero.out"
[ -f "$dir/zero.out" ] && [ ! -s "$dir/zero.out" ] || fail "an empty image is not empty"
sound
