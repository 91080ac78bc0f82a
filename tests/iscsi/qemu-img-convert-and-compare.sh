#!/bin/sh
# qemu-img sees the size, fills the disk, and finds it equal.
. "$(dirname "$0")/common.sh"
requires_qemu_iscsi
serve --size 67108864
qemu-img info "$uri" | grep -q '64 MiB' || fail "$(qemu-img info "$uri")"
dd if=/dev/urandom of="$dir/image" bs=1M count=40 2>/dev/null
truncate -s 64M "$dir/image"
qemu-img convert -n -f raw -O raw "$dir/image" "$uri"
qemu-img compare -f raw -F raw "$dir/image" "$uri"
qemu-img convert -f raw -O raw "$uri" "$dir/back"
cmp "$dir/image" "$dir/back"
qemu-img map -f raw --output=json "$uri" >"$dir/map"
grep -q '"zero": true' "$dir/map" || fail "no holes: $(cat "$dir/map")"
