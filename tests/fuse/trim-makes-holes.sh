#!/usr/bin/env bash
# What a file system trims arrives as punched holes; lseek and cp see them.
. "$(dirname "$0")/common.sh"
requires_loop
requires mkfs.ext4 fstrim python3
data_bytes() {
    python3 - "$1" <<'P'
import os, sys
fd, at, sum = os.open(sys.argv[1], os.O_RDONLY), 0, 0
while True:
    try:
        at = os.lseek(fd, at, os.SEEK_DATA)
    except OSError:
        break
    end = os.lseek(fd, at, os.SEEK_HOLE)
    sum, at = sum + end - at, end
print(sum)
P
}
show $((128 << 20))
mkdir "$dir/inner"
mkfs.ext4 -q -F "$disk"
attach --direct-io=on
mount "$loop" "$dir/inner"
head -c 40000000 /dev/urandom >"$dir/inner/noise"
sync -f "$dir/inner"
full=$(data_bytes "$disk")
[ "$full" -gt 40000000 ] || fail "only $full bytes are data"
rm "$dir/inner/noise"
sync -f "$dir/inner"
fstrim "$dir/inner"
umount "$dir/inner"
detach
left=$(data_bytes "$disk")
[ "$left" -lt 10000000 ] || fail "after trim $left bytes are still data"
cp --sparse=auto "$disk" "$dir/copy"
cmp "$disk" "$dir/copy"
[ $(($(stat -c %b "$dir/copy") * 512)) -lt 20000000 ] || fail "the copy has no holes"
unshow
