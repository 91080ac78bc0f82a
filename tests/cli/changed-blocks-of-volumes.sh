#!/usr/bin/env bash
# qemu copies from one snapshot of a volume to the next, and from the image below a clone, only what
# changed: the same bytes as the whole.
. "$(dirname "$0")/common.sh"
requires qemu-img qemu-io nbdinfo python3 cmp
new_pool
noise "$dir/image" 24
truncate -s 32M "$dir/image"
exits 0 q import "$dir/image" disk
origin=disk@$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
exits 0 q volume clone disk web
start_server --nbd-socket "$dir/nbd"
uri() { echo "nbd+unix:///$1?socket=$dir/nbd"; }
io() { qemu-io -f raw -t none -d unmap "$(uri web)" "$@" >"$dir/io" || fail "$(cat "$dir/io")"; }
# changed EXPORT STATE: lines of first byte and length.
changed() {
    nbdinfo --map="qemu:dirty-bitmap:$2" "$(uri "$1")" >"$dir/map" || fail "no map of $1 since $2"
    awk '$4 == "dirty" { print $1, $2 }' "$dir/map" >"$dir/ranges"
}
# bring EXPORT STATE COPY: makes a copy of STATE one of EXPORT, by what changed.
bring() {
    local start length bytes=0 blocks=0
    changed "$1" "$2"
    while read -r start length; do
        # Whole blocks of 4 KiB around what is dirty.
        blocks=$(((start + length + 4095) / 4096 - start / 4096))
        qemu-img dd -f raw -O raw bs=4096 skip=$((start / 4096)) count=$((start / 4096 + blocks)) \
            "if=$(uri "$1")" "of=$dir/piece"
        dd if="$dir/piece" of="$3" bs=4096 seek=$((start / 4096)) count=$blocks conv=notrunc status=none
        bytes=$((bytes + blocks * 4096))
    done <"$dir/ranges"
    [ $bytes -le "$4" ] || fail "$bytes bytes were copied: $(cat "$dir/map")"
    [ $bytes -gt 0 ] || fail "nothing changed: $(cat "$dir/map")"
    qemu-img compare -f raw -F raw "$3" "$(uri "$1")" >/dev/null || fail "$1 differs from what was brought up from $2"
}
changed web "$origin"
[ ! -s "$dir/ranges" ] || fail "a clone differs: $(cat "$dir/map")"
io -c 'write -P 1 64k 192k' -c 'discard 8M 1M' -c 'write -z 20M 100k' -c flush
exits 0 q volume snapshot web@monday
cp "$dir/image" "$dir/copy"
bring web@monday "$origin" "$dir/copy" 2000000
io -c 'write -P 3 33550336 4k' -c 'write -P 5 1M 10k'
# What is written and in no checkpoint counts at once.
cp "$dir/copy" "$dir/live"
bring web monday "$dir/live" 100000
exits 0 q volume snapshot web@tuesday
bring web@tuesday monday "$dir/copy" 100000
nbdinfo "$(uri web)" >"$dir/info"
grep -q 'qemu:dirty-bitmap:tuesday' "$dir/info" || fail "$(cat "$dir/info")"
exits 0 q forget web@monday
! nbdinfo --map=qemu:dirty-bitmap:monday "$(uri web)" >/dev/null 2>&1 || fail "a forgotten state can be asked for"
# States of an image too, and larger disks.
dd if=/dev/zero of="$dir/image" bs=1M seek=3 count=1 conv=notrunc status=none
exits 0 q import "$dir/image" disk
cp "$dir/image" "$dir/newer"
noise "$dir/part" 1
dd if="$dir/part" of="$dir/newer" bs=1M seek=11 conv=notrunc status=none
exits 0 q import "$dir/newer" disk
second=$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*"kind":"image".*/\1/p' | sed -n 2p)
bring disk "$second" "$dir/image" 1100000
stop_server
sound
