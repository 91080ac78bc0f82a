#!/usr/bin/env bash
# A client is killed: its command stops, nothing of it is left, and the next one gets its turn.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/src" && echo x >"$dir/src/x"
start_server
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin <"$dir/pipe" >"$dir/log" 2>&1 &
client=$!
# The writer stays: only the client's end can end the command.
exec 7>"$dir/pipe"
head -c 3000000 /dev/urandom >&7
kill -9 $client
wait $client 2>/dev/null || true
exits 0 timeout --foreground 60 "$QUINTET" backup "$dir/src"
# A program of a client ends with it.
"$QUINTET" backup --stdin-from-command -- sh -c "echo \$\$ >$dir/pid; exec sleep 1000" >"$dir/log" 2>&1 &
client=$!
wait_until test -s "$dir/pid"
kill -9 $client
wait $client 2>/dev/null || true
gone() { ! kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
wait_until gone
exits 0 timeout --foreground 60 "$QUINTET" backup "$dir/src"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots, expected 2"
stop_server
exec 7>&-
sound
