#!/usr/bin/env bash
# A volume that was written here and there is defragmented: the pieces of 128 KiB are together, the rest stays
# where it is, every byte is the same; a second run has nothing to do, and lost caches change nothing.
. "$(dirname "$0")/common.sh"
requires qemu-io cmp nbdcopy
new_pool
exits 0 q volume create disk --size 4M
disk="nbd+unix:///disk?socket=$dir/nbd"
# Of every 256 KiB the first 128 are 32 pieces, an eighth of them at a time; the rest is one piece.
for round in 0 1 2 3 4 5 6 7; do
    start_server --nbd-socket "$dir/nbd"
    writes=()
    for block in $(seq 0 15); do
        for piece in $(seq $round 8 31); do
            place=$((block * 256 + piece * 4))k
            writes+=(-c "write -P $((1 + block)) $place 4k" -c "write -P $((1 + piece)) $place 512")
        done
        [ $round -ne 7 ] || writes+=(-c "write -P $((251 + block % 4)) $((block * 256 + 128))k 128k")
    done
    qemu-io -f raw "$disk" "${writes[@]}" -c flush >"$dir/io" || fail "$(cat "$dir/io")"
    [ $round -ne 7 ] || nbdcopy "$disk" "$dir/before"
    stop_server
done
exits 0 q defrag --dry-run
says "would be copied"
says "ranges that were read"
exits 1 q defrag nothing-like-it
exits 0 q defrag --json --bypass
[ "$(number ranges_in_pieces)" -ge 16 ] && [ "$(number ranges_moved)" -ge 16 ] || fail "$(cat "$dir/out")"
before=$(number places 2)
after=$(number places 1)
[ "$after" -lt "$before" ] || fail "$before places before, $after after"
exits 0 q defrag --json --bypass disk
[ "$(number copied_bytes)" -eq 0 ] || fail "again: $(cat "$dir/out")"
sound
rm "$pool"/cache/moved "$pool"/cache/fpi
start_server --nbd-socket "$dir/nbd"
nbdcopy "$disk" "$dir/after"
cmp "$dir/before" "$dir/after" || fail "other bytes"
exits 0 q defrag
stop_server
exits 0 q gc --trash-period 0
exits 0 q gc --trash-period 0
sound
# In a server, by what was read, also of the last server.
start_server --nbd-socket "$dir/nbd"
exits 0 q volume create other --size 4M
other="nbd+unix:///other?socket=$dir/nbd"
for round in 0 1 2 3 4 5 6 7; do
    writes=()
    for piece in $(seq $round 8 1023); do
        writes+=(-c "write -P $((100 + piece % 150)) $((piece * 4))k 4k" -c "write -P $((1 + piece / 150)) $((piece * 4))k 512")
    done
    qemu-io -f raw "$other" "${writes[@]}" -c flush >"$dir/io" || fail "$(cat "$dir/io")"
    exits 0 q volume snapshot "other@$round"
done
qemu-io -f raw "$other" -c 'read 0 128k' -c 'read 1M 128k' >"$dir/io" || fail "$(cat "$dir/io")"
stop_server
[ -s "$pool/cache/trace.0" ] || [ -s "$pool/cache/trace.1" ] || fail "no trace"
start_server --nbd-socket "$dir/nbd"
exits 1 q defrag --pause
exits 0 q defrag --json other
grep -q '"traced":true' "$dir/out" || fail "$(cat "$dir/out")"
[ "$(number ranges)" -lt 32 ] && [ "$(number ranges_moved)" -ge 1 ] || fail "$(cat "$dir/out")"
exits 0 q status
says "defrag: last run copied"
# One run at a time, which others can stop and let go on.
background slow "$QUINTET" defrag --whole --limit 2M other
slow=$!
state_is() { q status | matches "defrag: $1"; }
wait_until state_is copying
exits 1 q defrag --bypass other
says "already"
exits 0 q defrag --pause
wait_until state_is paused
exits 0 q defrag --resume
wait $slow || fail "$(cat "$dir/slow")"
grep -q "copied: 100.0 %" "$dir/slow" || fail "$(cat "$dir/slow")"
stop_server
sound
start_server --nbd-socket "$dir/nbd"
rm "$dir/after"
nbdcopy "$disk" "$dir/after"
cmp "$dir/before" "$dir/after" || fail "other bytes after gc"
