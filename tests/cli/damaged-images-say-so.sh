#!/usr/bin/env bash
# What is no disk image is refused with the right command. A truncated or damaged image is refused, or is stored and marked
# as incomplete if the user says so; so is one with sectors that the disk cannot read.
. "$(dirname "$0")/common.sh"
requires qemu-img qemu-io
new_pool
exits 1 timeout 20 "$QUINTET" import /dev/zero disk
says "character device"
mkfifo pipe && mkdir directory
exits 1 timeout 20 "$QUINTET" import pipe disk
says "backup --stdin"
exits 1 q import directory disk
says "quintet backup directory"
for input in /dev/stdin /dev/fd/0; do
    exits 1 q import $input disk
    says "name the file itself, or give - "
done
[ "$(snapshots)" -eq 0 ] || fail "$(snapshots) snapshots"

# marked IMAGE: what import says without and with leave, and what is shown afterwards.
marked() {
    exits 1 q import -f "${1##*.}" "$1" "$1"
    says "is damaged: .*--allow-damaged"
    exits 3 q import -f "${1##*.}" "$1" "$1" --allow-damaged
    exits 0 q snapshots
    says 'incomplete: parts not read'
    exits 3 q import -f "${1##*.}" "$1" "$1" --allow-damaged
    ! grep -q "did not change" "$dir/err" || fail "a damaged image was taken for unchanged"
    exits 3 q status
    says "$1: the newest snapshot is incomplete"
}
# 4 MiB of data at the end of each.
truncate -s 8M disk.raw && head -c 4M /dev/urandom | dd of=disk.raw bs=1M seek=4 conv=notrunc status=none
cut_off() { head -c $(($(stat -c %s "$1") - 1000000)) "$1" >"$2"; }
qemu-img convert -O qcow2 disk.raw whole.qcow2
cut_off whole.qcow2 cut.qcow2
marked cut.qcow2
cp whole.qcow2 bit.qcow2 && printf '\0\0\0\0\0\0\0\2' | dd of=bit.qcow2 bs=1 seek=72 conv=notrunc status=none
marked bit.qcow2
qemu-img convert -O vdi disk.raw whole.vdi
cut_off whole.vdi cut.vdi
marked cut.vdi
qemu-img create -q -f vmdk -o subformat=monolithicFlat flat.vmdk 8M && truncate -s 1M flat-flat.vmdk
marked flat.vmdk
says "flat.vmdk"
# One below it.
qemu-img create -q -f qcow2 -u -b cut.qcow2 -F qcow2 over.qcow2 8M
marked over.qcow2
# These cannot even be opened; the cause is told.
for format in vhdx vpc; do
    qemu-img convert -O $format disk.raw whole.$format
    cut_off whole.$format cut.$format
    exits 1 q import cut.$format other
    says "truncated"
done

# A bad sector: of a file in a mount of a damaged pool.
export QUINTET_REPOSITORY=$dir/damaged
new_pool --parity 0
noise clean 3
exits 0 q import clean disk --compression none
container=$(find "$dir/damaged/containers" -type f -size +1M | head -n 1)
printf 'damage' | dd of="$container" bs=1 seek=1500000 conv=notrunc status=none
show
image=$(find "$mount" -path '*images*' -type f | head -n 1)
[ -n "$image" ] || fail "$(find "$mount" | head)"
export QUINTET_REPOSITORY=$pool
exits 1 q import "$image" rescued
says "input/output error at byte [0-9]*; save what .*--skip-bad-sectors"
exits 3 q import "$image" rescued --skip-bad-sectors
says "cannot read [0-9]* bytes at byte"
exits 0 q export rescued out.raw
[ "$(stat -c %s out.raw)" -eq $((3 << 20)) ] || fail "$(stat -c %s out.raw) bytes"
differ=$({ cmp -l clean out.raw || true; } | wc -l)
[ "$differ" -gt 0 ] && [ "$differ" -lt $((2 << 20)) ] || fail "$differ bytes differ"
exits 0 q snapshots
says 'incomplete: parts not read'
QUINTET_REPOSITORY=$dir/damaged unshow
sound
