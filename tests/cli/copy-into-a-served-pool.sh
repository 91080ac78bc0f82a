#!/usr/bin/env bash
# A pool that a server holds receives: the copy runs there, beside its clients, whether another server holds the pool that is copied
# or none; its status shows it; names that it has meanwhile are not taken twice.
# Sealed: the server of the receiving pool has its password, and nobody else needs it.
. "$(dirname "$0")/common.sh"
sealed
other_pool
noise "$dir/image" 24
mkdir "$dir/src"
noise "$dir/src/file" 8
new_pool
new_other_pool
exits 0 q backup "$dir/src"
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk@latest machine
exits 0 q volume snapshot machine@monday
# The server of the receiving pool is $receiver, that of the other one $server.
QUINTET_REPOSITORY=$other QUINTET_PASSWORD=$QUINTET_TO_PASSWORD "$QUINTET" serve >"$dir/received" 2>&1 &
receiver=$!
stop_receiver() {
    local code=$?
    kill "$receiver" 2>/dev/null || true
    set +e
    (exit $code)
    finish
}
trap stop_receiver EXIT
wait_until grep -q ^serving "$dir/received"
there() {
    o snapshots --json | grep -c '"message_type":"snapshot"' || true
}

# No server has the pool that is copied. The password of the receiving pool is not asked for: its server has it.
QUINTET_TO_PASSWORD=unknown exits 0 q copy latest
[ "$(there)" = 1 ] || fail "$(o snapshots)"
QUINTET_PASSWORD=wrong exits 12 q copy --all

# Both have one.
start_server
exits 0 q copy --all --json
[ "$(number snapshots_copied)" = 2 ] && [ "$(number snapshots_present)" = 1 ] || fail "$(cat "$dir/out")"
exits 0 q copy --all --json
[ "$(number snapshots_present)" = 3 ] && [ "$(number data_added)" = 0 ] || fail "$(cat "$dir/out")"
exits 0 o export -f raw disk "$dir/exported"
cmp "$dir/image" "$dir/exported"
exits 0 o volume clone machine@monday machine
exits 0 o backup "$dir/src"

# Its status shows it, its switch stops it, an interruption ends it; meanwhile it serves.
noise "$dir/image2" 24
exits 0 q import "$dir/image2" disk2
status_says() {
    o status | matches "$1"
}
background copied "$QUINTET" copy --all --limit 2M
copy=$!
wait_until status_says 'copy.*under way'
exits 0 o copy --pause
says '1 copy paused'
exits 0 o copy --resume
kill -INT $copy
code=0
wait $copy || code=$?
[ $code -eq 130 ] || fail "an interrupted copy ended with $code: $(cat "$dir/copied")"
exits 0 q copy --all
exits 0 o export -f raw disk2 "$dir/exported2"
cmp "$dir/image2" "$dir/exported2"

# Another snapshot of this name.
exits 0 q volume create clash --size 1M
exits 0 q volume snapshot clash@one
exits 0 o volume create clash --size 1M
exits 0 o volume snapshot clash@one
exits 1 q copy clash@one
says 'another snapshot with this name'
stop_server
kill -TERM "$receiver"
wait "$receiver" || fail "the receiving server failed: $(cat "$dir/received")"
exits 0 o check --read-data
sound
