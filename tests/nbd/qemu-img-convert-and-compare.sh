#!/bin/sh
# qemu-img writes an image to the export, compares it and reads it back.
. "$(dirname "$0")/common.sh"
requires qemu-img cmp
serve --size 33554432
head -c 5000000 /dev/urandom >"$dir/raw"
truncate -s 33554432 "$dir/raw"
qemu-img convert -q -n -f raw -O raw "$dir/raw" "$uri"
qemu-img compare -q -f raw -F raw "$dir/raw" "$uri"
qemu-img convert -q -f raw -O qcow2 "$uri" "$dir/qcow2"
qemu-img compare -q -f raw -F qcow2 "$dir/raw" "$dir/qcow2"
