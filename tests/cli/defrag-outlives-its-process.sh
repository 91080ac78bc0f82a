#!/usr/bin/env bash
# A defragmentation outlives the process that it was begun in: a server that is killed, or stopped, in the middle of one
# leaves it to the next server, which goes on by itself; what is paused stays paused; without servers `resume` goes on. What was
# written down as copied is not copied again.
. "$(dirname "$0")/common.sh"
requires cmp
new_pool
noise "$dir/image" 32
exits 0 q import "$dir/image" disk
all=$((32 << 20))
# field NAME: of what `defrag status` says.
field() {
    q defrag status --json | grep -o "\"$1\":\"\?[^,\"]*" | head -n 1 | sed 's/.*:"\?//'
}
copied_more_than() { [ "$(field copied_bytes)" -gt "$1" ]; }
is_begun() { [ "$(field running)" = true ]; }
status_says() { q defrag status | matches "$1"; }
dies() {
    kill_server
}
exits 0 q defrag status
says 'no run yet'
exits 1 q defrag start disk
exits 1 q defrag resume
exits 1 q defrag cancel

# Killed in the middle.
start_server
exits 0 q defrag start --whole --limit 1M disk
exits 1 q defrag --bypass disk
says already
wait_until copied_more_than $((1 << 20))
exits 0 q defrag pause
says paused
exits 0 q status
says 'defrag: paused'
before=$(field copied_bytes) began=$(field began)
[ "$before" -gt $((1 << 20)) ] && [ "$before" -lt "$all" ] || fail "$before bytes"
exits 0 q defrag resume --limit 1M
wait_until copied_more_than $((before + (1 << 20)))
dies
exits 0 q defrag status --json
[ "$(field running)" = true ] && [ "$(field copied_bytes)" -eq "$before" ] || fail "$(cat "$dir/out")"
exits 0 q status
says 'defrag: copying'
start_server
wait_until grep -q 'defrag: resumes the run of' "$dir/serve"
[ "$(field began)" = "$began" ] || fail "another run: $(q defrag status --json)"
[ "$(field copied_bytes)" -lt "$all" ] || fail "it is over"
# How long it takes is known while it copies.
wait_until status_says 'about 0:'
exits 0 q defrag resume --limit 1G
wait_until status_says 'last run copied'
[ "$(field began)" = "$began" ] || fail "another run: $(q defrag status --json)"
[ "$(field copied_bytes)" -eq "$all" ] || fail "$(field copied_bytes) bytes were copied"

# Stopped in the middle, while somebody waits for it.
background waits "$QUINTET" defrag --whole --limit 1M disk
waits=$!
wait_until is_begun
wait_until copied_more_than $((1 << 20))
stop_server
! wait $waits || fail "$(cat "$dir/waits")"
grep -q 'the next server continues the run' "$dir/waits" || fail "$(cat "$dir/waits")"
before=$(field copied_bytes)
[ "$before" -gt $((1 << 20)) ] && [ "$before" -lt "$all" ] || fail "$before bytes: $(q defrag status)"
start_server
wait_until copied_more_than "$before"
exits 0 q defrag pause
dies
# What is paused stays so.
start_server
exits 0 q defrag status
says paused
before=$(field copied_bytes)
sleep 1
[ "$(field copied_bytes)" -eq "$before" ] || fail "it is not paused"
stop_server

# Without a server.
exits 0 q defrag resume --limit 2G
says '100.0 % of rewriting'
[ "$(field copied_bytes)" -eq "$all" ] || fail "$(field copied_bytes) bytes were copied"
exits 1 q defrag resume
background alone "$QUINTET" defrag --whole --limit 1M disk
alone=$!
# Without a server, copies are recorded with a commit: late. That they are resumed too is shown above.
wait_until is_begun
kill -9 $alone
wait $alone 2>/dev/null || true
began=$(field began)
# Who asks for the same goes on.
exits 0 q defrag --whole disk
says 'resumes the run of'
[ "$(field began)" = "$began" ] || fail "another run: $(q defrag status --json)"
background alone "$QUINTET" defrag --whole --limit 1M disk
alone=$!
wait_until is_begun
kill -INT $alone
! wait $alone || fail "$(cat "$dir/alone")"
grep -q 'the run is paused' "$dir/alone" || fail "$(cat "$dir/alone")"
exits 0 q defrag status
says paused
exits 0 q defrag cancel
says cancelled
exits 1 q defrag resume

# Nothing of the record is needed.
start_server
exits 0 q defrag start --whole --limit 1M disk
wait_until is_begun
wait_until copied_more_than $((1 << 20))
dies
rm "$pool"/cache/defrag.?
start_server
exits 0 q defrag status
says 'no run yet'
stop_server
exits 0 q gc --trash-period 0
sound
exits 0 q export disk "$dir/after"
cmp "$dir/image" "$dir/after" || fail "other bytes"
