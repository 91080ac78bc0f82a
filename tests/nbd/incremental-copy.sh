#!/bin/sh
# qemu copies only what changed since a state, by x-dirty-bitmap, onto an older copy: the same bytes.
. "$(dirname "$0")/common.sh"
requires qemu-img qemu-io python3 cmp
serve_controlled --size 33554432
head -c 33554432 /dev/urandom >"$dir/raw"
qemu-img convert -q -n -f raw -O raw "$dir/raw" "$uri"
qemu-img convert -q -f raw -O raw "$uri" "$dir/copy"
control mark disk full
qemu-io -f raw -t none -d unmap "$uri" -c 'write -P 1 64k 192k' -c 'discard 8M 1M' \
    -c 'write -z 20M 100k' -c 'write -P 3 33550336 4k' >"$dir/log" || fail "$(cat "$dir/log")"
options="driver=nbd,server.type=unix,server.path=$socket,export=disk"
options="$options,x-dirty-bitmap=qemu:dirty-bitmap:full"
# What is dirty is shown as without data.
qemu-img map --output=json --image-opts "$options" >"$dir/map"
python3 -c "
import json, sys
for piece in json.load(open('$dir/map')):
    if not piece['data']:
        print(piece['start'], piece['length'])
" >"$dir/ranges"
[ "$(wc -l <"$dir/ranges")" = 4 ] || fail "$(cat "$dir/map")"
bytes=0
while read -r start length; do
    qemu-img dd -f raw -O raw bs=4096 skip=$((start / 4096)) count=$(((start + length) / 4096)) \
        "if=$uri" "of=$dir/piece"
    dd if="$dir/piece" of="$dir/copy" bs=4096 seek=$((start / 4096)) count=$((length / 4096)) \
        conv=notrunc status=none
    bytes=$((bytes + length))
done <"$dir/ranges"
[ $bytes -lt 2000000 ] || fail "$bytes bytes were copied"
qemu-img convert -q -f raw -O raw "$uri" "$dir/now"
cmp "$dir/now" "$dir/copy"
