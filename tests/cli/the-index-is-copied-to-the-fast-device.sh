#!/usr/bin/env bash
# `serve --fast` keeps a copy of the fingerprint index on the fast device. It counts after a restart, grows with the
# pool, and may be damaged or deleted: every byte is found all the same.
. "$(dirname "$0")/common.sh"
requires nbdcopy
new_pool
exits 1 q serve --nbd-socket "$dir/nbd" --fast "$dir/fast" --fast-size 64M --fast-shares 50,35,10
says "add up to 100"
mkdir "$dir/fast" "$dir/tree"
serve() { start_server --nbd-socket "$dir/nbd" --fast "$dir/fast" --fast-size 64M --qos gc=off scrub=off; }
is_copied() { q status | matches 'fast index: in use; '; }
# Another backup of every byte stores nothing that was stored before.
known() {
    exits 0 q backup --force --json "$dir/tree"
    [ "$(number data_added_packed)" -lt 1000000 ] || fail "stored again: $(cat "$dir/out")"
}
copy() { echo "$dir"/fast/quintet-index-*; }
noise "$dir/tree/first" 24
serve
exits 0 q backup "$dir/tree"
wait_until is_copied
for n in $(seq 3); do
    noise "$dir/tree/more$n" 8
    exits 0 q backup "$dir/tree"
    wait_until is_copied
done
stop_server
[ "$(stat -c %s "$(copy)")" -gt 200000 ] || fail "the copy has $(stat -c %s "$(copy)") bytes"
before=$(stat -c %i "$(copy)")
serve
wait_until is_copied
[ "$(stat -c %i "$(copy)")" = "$before" ] || fail "the copy is another file"
known
stop_server
# Wrong bytes in every bucket.
dd if=/dev/urandom of="$(copy)" bs=4096 seek=2 count=50 conv=notrunc status=none
serve
known
sound
wait_until is_copied
stop_server
rm "$(copy)"
serve
wait_until is_copied
exits 0 q restore latest --target "$dir/back"
same "$dir/tree" "$dir/back$dir/tree"
# No server, no copy: the pool has its own.
stop_server
rm -r "$dir/fast"
known
sound
