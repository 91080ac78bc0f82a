#!/usr/bin/env bash
# Ctrl-C during a backup: exit 130, no snapshot, and the next run uses what was stored.
. "$(dirname "$0")/common.sh"
new_pool
noise "$dir/noise" 80
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin --stdin-filename stream <"$dir/pipe" >"$dir/log" 2>&1 &
backup=$!
exec 7>"$dir/pipe"
cat "$dir/noise" >&7
enough() { [ "$(stored_bytes)" -gt 16000000 ]; }
wait_until enough
kill -INT $backup
# The stream has no end: only the signal can end the backup.
wait_until has_ended $backup
exec 7>&-
code=0
wait $backup || code=$?
[ $code -eq 130 ] || fail "exited with $code: $(cat "$dir/log")"
[ "$(snapshots)" -eq 0 ] || fail "an interrupted backup left a snapshot"
kept=$(stored_bytes)
[ "$kept" -gt 16000000 ] || fail "only $kept bytes were kept of 80 MiB"
exits 0 q backup --stdin-from-command --stdin-filename stream -- cat "$dir/noise"
[ "$(snapshots)" -eq 1 ] || fail "no snapshot"
echo "$kept bytes were kept"
[ "$(stored_bytes)" -lt 88000000 ] || fail "stored twice: $(stored_bytes) bytes, $kept of them before"
sound
