#!/usr/bin/env bash
# A server is killed with a command under way: its client fails, the next command opens the pool itself
# at once, and the next server takes the place.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/src" && echo x >"$dir/src/x"
start_server
exits 0 q backup "$dir/src"
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin <"$dir/pipe" >"$dir/log" 2>&1 &
client=$!
exec 7>"$dir/pipe"
head -c 3000000 /dev/urandom >&7
exits 11 q --wait 0 serve
kill -9 $server
code=0
wait $client || code=$?
[ $code -eq 1 ] || fail "the client exited with $code: $(cat "$dir/log")"
grep -q 'ended before the command did' "$dir/log" || fail "$(cat "$dir/log")"
exec 7>&-
[ -S "$pool/control" ] || fail "no socket is left: the test tests nothing"
exits 0 q backup "$dir/src"
exits 0 q tag --add direct latest
start_server
exits 0 q backup "$dir/src"
[ "$(snapshots)" -eq 3 ] || fail "$(snapshots) snapshots, expected 3"
stop_server
sound
