#!/usr/bin/env bash
# A server that holds the pool copies: what its clients have read is sent from memory; they go on writing; a state of a
# volume is copied as it was.
. "$(dirname "$0")/common.sh"
requires nbdcopy
other_pool
noise "$dir/image" 48
noise "$dir/image2" 48
mkdir "$dir/src"
noise "$dir/src/file" 4
new_pool
new_other_pool
exits 0 q backup "$dir/src"
start_server --nbd-socket "$dir/nbd" --memory 256M
exits 0 q volume create disk --size 48M
nbdcopy "$dir/image" "nbd+unix:///disk?socket=$dir/nbd"
exits 0 q volume snapshot disk@monday
# What a client has read is in memory, as much as finds room.
stop_server
start_server --nbd-socket "$dir/nbd" --memory 256M
read_it() {
    nbdcopy "nbd+unix:///disk?socket=$dir/nbd" "$dir/read"
}
read_it
cmp "$dir/image" "$dir/read"

# Clients go on writing; what is copied is the state.
nbdcopy "$dir/image2" "nbd+unix:///disk?socket=$dir/nbd" &
writing=$!
exits 0 q copy disk@monday --json
wait "$writing"
[ "$(number snapshots_copied)" = 1 ] || fail "$(cat "$dir/out")"
cached=$(number cached_bytes) read=$(number read_bytes)
[ "$((cached + read))" -eq $((48 << 20)) ] || fail "$cached and $read"
[ "$cached" -gt $((16 << 20)) ] || fail "only $cached bytes came from memory, $read were read"
exits 0 o export -f raw disk@monday "$dir/there"
cmp "$dir/image" "$dir/there"

# Its status shows a copy; it can be paused.
exits 1 o copy --pause
says 'this pool has no server'
noise "$dir/image" 32
nbdcopy "$dir/image" "nbd+unix:///disk?socket=$dir/nbd"
exits 0 q volume snapshot disk@tuesday
status_says() {
    q status | matches "$1"
}
background copied "$QUINTET" copy --all --limit 4M
copy=$!
wait_until status_says "copy.*to $other: under way.*from memory"
exits 0 q copy --pause
says '1 copy paused'
wait_until status_says "copy.*paused"
q status --json | matches '"copies":\[{"to":' || fail "$(q status --json)"
kill -0 $copy || fail "$(cat "$dir/copied")"
exits 0 q copy --resume
kill -INT $copy
code=0
wait $copy || code=$?
[ $code -eq 130 ] || fail "an interrupted copy ended with $code: $(cat "$dir/copied")"
exits 0 q copy --all
! status_says 'copy *to' || fail "the copy has ended: $(q status)"
stop_server
exits 0 o check --read-data

sound
