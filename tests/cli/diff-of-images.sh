#!/usr/bin/env bash
# diff of two states of an image says where they differ, without reading their data.
. "$(dirname "$0")/common.sh"
noise "$dir/disk" 6
# Where the other bytes will be, noise could have them already.
for at in $((1 << 20 | 16383)) $((1 << 20 | 16384)) 5000000; do printf '\0' | dd of="$dir/disk" bs=1 seek=$at conv=notrunc status=none; done
new_pool
exits 0 q import "$dir/disk" disk --region-size 64K
first=$(q snapshots --json | sed -n 's/.*"short_id":"\([0-9a-f]*\)".*/\1/p')
# Three places: two bytes over a chunk's boundary, one byte far away, and a longer end.
printf 'ab' | dd of="$dir/disk" bs=1 seek=$((1 << 20 | 16383)) conv=notrunc status=none
printf 'x' | dd of="$dir/disk" bs=1 seek=5000000 conv=notrunc status=none
head -c 5000 /dev/urandom >>"$dir/disk"
exits 0 q import "$dir/disk" disk --region-size 64K
exits 0 q diff "disk@$first" disk
[ "$(grep '^M' "$dir/out")" = "M    1048576 +32768
M    4997120 +16384
M    6291456 +5000" ] || fail "$(cat "$dir/out")"
says "in 3 ranges differ"
says "length 6291456 before, 6296456 after"
exits 0 q diff --json disk "$first"
grep -q '"changed_bytes":54152' "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q diff disk disk
says "0 B in 0 ranges"
# The data may be gone: only recipes are read.
find "$pool/containers" -type f -size +1M -delete
exits 0 q diff "disk@$first" disk
says "in 3 ranges differ"
echo one | q backup -q --stdin --stdin-filename stream
exits 1 q diff "disk@$first" stream
exits 1 q diff disk nothing
