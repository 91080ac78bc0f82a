#!/usr/bin/env bash
# A database on a clone of an image reads a few chunks again and again. defrag copies these into small regions, at most
# 3 % of the image: cold reads of them fetch much less, the rest stays, every byte is the same, and a second run has
# nothing to do. gc keeps it so. The server copies nothing by itself here (hot-chunks=off).
. "$(dirname "$0")/common.sh"
requires qemu-io cmp nbdcopy od
new_pool
# 32 MiB that compress to about two thirds.
head -c 24M /dev/urandom | base64 -w 0 | head -c 32M >"$dir/image"
exits 0 q import --region-size 1536K "$dir/image" image
start_server --nbd-socket "$dir/nbd" --qos hot-chunks=off
exits 0 q volume clone image db
db="nbd+unix:///db?socket=$dir/nbd"
number() {
    grep -o "\"$1\":[0-9.]*" "$dir/out" | head -n 1 | cut -d: -f2
}
# Reads 40 chunks here and there, each in its own request, as a database does.
reads() {
    local commands=() nth
    for nth in $(seq 0 39); do commands+=(-c "read $(((nth * 1237 + 411) % 2048 * 16 + nth % 4 * 4))k 4k"); done
    qemu-io -f raw "$db" "${commands[@]}" >"$dir/io" || fail "$(cat "$dir/io")"
}
for round in 1 2 3; do
    reads
    # A server that starts has nothing in memory.
    stop_server
    start_server --nbd-socket "$dir/nbd" --qos hot-chunks=off
done
exits 0 q defrag --dry-run --json
[ "$(number written_bytes)" -gt 0 ] || fail "dry run: $(cat "$dir/out")"
exits 0 q defrag
says "into small ones"
exits 0 q defrag status --json
written=$(number written_bytes)
[ "$written" -gt 600000 ] && [ "$written" -le 1006632 ] || fail "$written bytes: $(cat "$dir/out")"
before=$(number cold_read_bytes_before)
after=$(number cold_read_bytes_after)
[ "$before" -gt 500000 ] && [ "$after" -le 16384 ] || fail "$before before, $after after: $(cat "$dir/out")"
exits 0 q status
says "into small ones"
nbdcopy "$db" "$dir/after"
cmp "$dir/image" "$dir/after" || fail "other bytes"
stop_server
start_server --nbd-socket "$dir/nbd" --qos hot-chunks=off
reads
exits 0 q defrag --json
[ "$(number written_bytes)" -eq 0 ] || fail "again: $(cat "$dir/out")"
stop_server
exits 0 q gc --trash-period 0
exits 0 q gc --trash-period 0
start_server --nbd-socket "$dir/nbd" --qos hot-chunks=off
reads
nbdcopy "$db" "$dir/after"
cmp "$dir/image" "$dir/after" || fail "other bytes after gc"
exits 0 q defrag --json
[ "$(number written_bytes)" -eq 0 ] || fail "after gc: $(cat "$dir/out")"
stop_server
sound
