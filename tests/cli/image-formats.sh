#!/usr/bin/env bash
# qcow2, vmdk, vhdx, vdi and vhd in and out, through qemu-img. An image is taken for what its bytes say, and for unchanged
# only if none of its files has changed.
. "$(dirname "$0")/common.sh"
requires qemu-img qemu-io
truncate -s 64M "$dir/disk.raw"
noise "$dir/some" 3
dd if="$dir/some" of="$dir/disk.raw" bs=1M seek=20 conv=notrunc status=none
new_pool
declare -A of_qemu=([vhd]=vpc)
for format in qcow2 vmdk vhdx vdi vhd; do
    option=()
    [ $format != vhd ] || option=(-o force_size=on)
    qemu=${of_qemu[$format]:-$format}
    qemu-img convert -q -O "$qemu" ${option[@]+"${option[@]}"} "$dir/disk.raw" "$dir/in.$format"
    exits 0 q import -f $format "$dir/in.$format" "$format-disk"
    exits 0 q export -f $format "$format-disk" "$dir/out.$format"
    qemu-img compare -q -f raw -F "$qemu" "$dir/disk.raw" "$dir/out.$format"
    # Without -f, by its head; with that of another, not at all.
    exits 0 q import "$dir/in.$format" "$format-found"
    exits 0 q export "$format-found" "$dir/out.raw" --force
    cmp "$dir/disk.raw" "$dir/out.raw" || fail "$format was not taken for what it is"
    other=qcow2
    [ $format != qcow2 ] || other=vmdk
    exits 1 q import -f $other "$dir/in.$format" wrong
    says "is a $format image and not $other"
    # The file itself, if the user says so.
    exits 0 q import -f raw "$dir/in.$format" "$format-file"
    says "stores its own bytes"
    exits 0 q export "$format-file" "$dir/out.raw" --force
    cmp "$dir/in.$format" "$dir/out.raw"
done
# Colons are no protocol.
mkdir "$dir/nbd:x"
cp "$dir/in.qcow2" "$dir/nbd:x/a:b.qcow2"
(cd "$dir/nbd:x" && exits 0 q import a:b.qcow2 colons && exits 0 q export -f qcow2 colons c:d.qcow2)
qemu-img compare -q -f raw -F qcow2 "$dir/disk.raw" "$dir/nbd:x/c:d.qcow2"
# A fixed VHD has its mark at the end.
qemu-img convert -q -O vpc -o subformat=fixed,force_size=on "$dir/disk.raw" "$dir/fixed.vhd"
exits 0 q import "$dir/fixed.vhd" fixed
exits 0 q export fixed "$dir/out.raw" --force
cmp "$dir/disk.raw" "$dir/out.raw"
# The same bytes, whatever they came in.
before=$(stored_bytes)
exits 0 q import --force "$dir/in.vmdk" vmdk-found
[ $(($(stored_bytes) - before)) -lt 100000 ] || fail "the same disk added $(($(stored_bytes) - before)) bytes"

# What lies in other files.
unchanged() { # unchanged NAME ARGUMENT...: the next import reads nothing
    local name=$1
    shift
    exits 0 q import "$@" "$name"
    exits 0 q import "$@" "$name"
    says "did not change"
}
changed() { # changed NAME FILE FORMAT ARGUMENT...: the next import reads, and stores what FILE shows
    local name=$1 file=$2 format=$3
    shift 3
    exits 0 q import "$@" "$name"
    ! grep -q "did not change" "$dir/err" || fail "$name was taken for unchanged"
    exits 0 q export "$name" "$dir/out.raw" --force
    qemu-img compare -q -f raw -F "$format" "$dir/out.raw" "$file" || fail "$name: old bytes"
}
put() { qemu-io -f "$1" -c "write -P $3 0 1M" "$2" >"$dir/io" || fail "$(cat "$dir/io")"; }
cd "$dir"
qemu-img create -q -f qcow2 base.qcow2 8M && put qcow2 base.qcow2 1
qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 middle.qcow2
qemu-img create -q -f qcow2 -b middle.qcow2 -F qcow2 over.qcow2
unchanged over -f qcow2 over.qcow2
put qcow2 base.qcow2 2
changed over over.qcow2 qcow2 -f qcow2 over.qcow2
qemu-img create -q -f qcow2 -o data_file=ext.raw ext.qcow2 8M && put qcow2 ext.qcow2 1
unchanged ext -f qcow2 ext.qcow2
put qcow2 ext.qcow2 2
changed ext ext.qcow2 qcow2 -f qcow2 ext.qcow2
qemu-img create -q -f vmdk -o subformat=monolithicFlat flat.vmdk 8M
unchanged flat -f vmdk flat.vmdk
printf x | dd of=flat-flat.vmdk conv=notrunc status=none
changed flat flat.vmdk vmdk -f vmdk flat.vmdk
# How it is read counts too.
unchanged over -f qcow2 over.qcow2
changed over over.qcow2 qcow2 -f qcow2 over.qcow2 --region-size 256K
changed over over.qcow2 raw -f raw over.qcow2
# The bytes of an image alone make nobody read another file.
for image in over.qcow2 ext.qcow2 flat.vmdk; do
    exits 1 q import $image others
    says "reads other files"
done
sound
