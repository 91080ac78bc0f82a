#!/usr/bin/env bash
# Hard links, ACLs, attributes, holes, devices, pipes, odd names, odd modes and times: all come back.
. "$(dirname "$0")/common.sh"
requires rsync
src=$dir/src
mkdir -p "$src/sub/deep/er" "$src/empty" "$src/sticky"
cd "$src"
echo hello >file
: >nothing
ln file sub/hard-one
ln file "sub/deep/hard two"
ln -s file link
ln -s /nowhere/at/all dangling
ln -s "$(printf 'x%.0s' $(seq 200))" long-link
mkfifo pipe
printf 'x' >"$(printf 'new\nline')"
printf 'x' >"$(printf 'latin1-\344\366\374')"
printf 'x' >'-rf *'
printf 'x' >"$(printf '%0255d' 7)"
printf 'x' >' spaces  and "quotes" $HOME '
mkdir "$(printf 'dir\001\002')" && echo y >"$(printf 'dir\001\002/y')"
truncate -s 10M all-hole
truncate -s 5M holes && printf 'data' | dd of=holes bs=1 seek=3000000 conv=notrunc status=none
head -c 3000000 /dev/urandom >large
[ "$(id -u)" -ne 0 ] || chmod 0000 nothing
chmod 4755 file
chmod 1777 sticky
chmod 0500 sub/deep
touch -d '1969-01-01 01:02:03.123456789' large
touch -d '2038-01-19 03:14:08.999999999' holes
touch -h -d '2001-02-03 04:05:06.7' link
[ "$(id -u)" -ne 0 ] || {
    mknod char c 1 3
    mknod block b 7 200
    chown 12345:54321 large
    chown -h 1:2 link
}
if command -v setfattr >/dev/null; then
    setfattr -n user.note -v "$(printf 'some\tvalue')" file 2>/dev/null || echo "no user attributes here"
    setfattr -n user.empty sub 2>/dev/null || true
fi
if command -v setfacl >/dev/null; then
    setfacl -m u:1234:rwx,g:4321:r file 2>/dev/null || echo "no ACLs here"
    setfacl -d -m u:1234:rx sub 2>/dev/null || true
fi
touch -d '2020-05-05 05:05:05.000000005' "$src"
cd "$dir"
new_pool
exits 0 q backup "$src"
exits 0 q restore "latest:$src" --target "$dir/out-tree" --verify
same "$src" "$dir/out-tree"
[ "$(stat -c %i "$dir/out-tree/file")" = "$(stat -c %i "$dir/out-tree/sub/deep/hard two")" ] || fail "a hard link was lost"
[ "$(stat -c %b "$dir/out-tree/all-hole")" -lt 64 ] || fail "a hole takes space"
[ "$(stat -c %b "$dir/out-tree/holes")" -lt 1024 ] || fail "holes take space"
[ "$(stat -c %y "$dir/out-tree/large")" = "$(stat -c %y "$src/large")" ] || fail "nanoseconds were lost"
# Into the same place once more: nothing to complain about, nothing different.
exits 0 q restore "latest:$src" --target "$dir/out-tree"
same "$src" "$dir/out-tree"
sound
