#!/usr/bin/env bash
# An image served over NBD: every byte by several clients, holes shown, several at once, old states too.
. "$(dirname "$0")/common.sh"
requires qemu-img nbdinfo nbdcopy mkfs.ext4
real_tree "$dir/tree" 40
truncate -s 128M "$dir/disk.img"
mkfs.ext4 -q -F -d "$dir/tree" "$dir/disk.img"
new_pool
exits 0 q import "$dir/disk.img" disk
cp --sparse=always "$dir/disk.img" "$dir/old.img"
printf 'changed' | dd of="$dir/disk.img" bs=1 seek=100000000 conv=notrunc status=none
exits 0 q import "$dir/disk.img" disk
truncate -s 1G "$dir/hole.img"
exits 0 q import "$dir/hole.img" hole
old=$(q snapshots --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p' | sed -n 1p)
"$QUINTET" serve --read-only --nbd-socket "$dir/socket" >"$dir/server.log" 2>&1 &
server=$!
wait_until grep -q ^serving "$dir/server.log"
uri() { echo "nbd+unix:///${1:-}?socket=$dir/socket"; }
wait_until nbdinfo --size "$(uri disk)"
[ "$(nbdinfo --size "$(uri disk)")" = 134217728 ] || fail "size"
nbdinfo --is readonly "$(uri disk)" || fail "not read-only"
exits 0 nbdinfo --list "$(uri)"
says 'export="hole"'
qemu-img compare -q -f raw -F raw "$dir/disk.img" "$(uri disk)" || fail "qemu-img compare"
qemu-img compare -q -f raw -F raw "$dir/old.img" "$(uri "disk@${old:0:8}")" || fail "the older state"
nbdcopy --connections=4 "$(uri disk)" "$dir/copy" && cmp "$dir/disk.img" "$dir/copy"
exits 0 nbdinfo --map "$(uri hole)"
says '1073741824 *3 *hole,zero'
exits 0 nbdinfo --map --totals "$(uri disk)"
says hole
# A backup beside the server disturbs neither.
exits 0 q backup "$dir/tree"
qemu-img compare -q -f raw -F raw "$dir/disk.img" "$(uri disk)" || fail "after a backup"
if command -v fio >/dev/null && fio --enghelp=nbd >/dev/null 2>&1; then
    (cd "$dir" && fio --name=r --ioengine=nbd --uri="$(uri disk)" --rw=randread --bs=4k --iodepth=32 --runtime=2 \
        --time_based --size=128m --output="$dir/fio") || fail "fio: $(tail -n 5 "$dir/fio")"
fi
kill "$server"
code=0
wait "$server" || code=$?
server=
case $code in 0 | 130 | 143) ;; *) fail "the server ended with $code: $(cat "$dir/server.log")" ;; esac
[ ! -e "$dir/socket" ] || fail "the socket is left behind"
