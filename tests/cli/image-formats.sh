#!/usr/bin/env bash
# qcow2, vmdk and vhdx in and out, through qemu-img.
. "$(dirname "$0")/common.sh"
requires qemu-img
truncate -s 64M "$dir/disk.raw"
noise "$dir/some" 3
dd if="$dir/some" of="$dir/disk.raw" bs=1M seek=20 conv=notrunc status=none
new_pool
for format in qcow2 vmdk vhdx; do
    qemu-img convert -q -O $format "$dir/disk.raw" "$dir/in.$format"
    exits 0 q import -f $format "$dir/in.$format" "$format-disk"
    exits 0 q export -f $format "$format-disk" "$dir/out.$format"
    qemu-img compare -q -f raw -F $format "$dir/disk.raw" "$dir/out.$format"
done
# The same bytes, whatever they came in.
[ "$(stored_bytes)" -lt 4500000 ] || fail "stored $(stored_bytes) bytes for one image in three formats"
sound
