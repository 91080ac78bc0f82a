#!/usr/bin/env bash
# The space of a backup that failed, or was killed, comes back with the next gc: no other backup is needed.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && echo one >"$dir/src/one"
new_pool
exits 0 q backup "$dir/src"
small() { [ "$(stored_bytes)" -lt 1000000 ] || fail "$1: $(stored_bytes) bytes are stored"; }
large() { [ "$(stored_bytes)" -gt 30000000 ] || fail "$1: only $(stored_bytes) bytes are stored"; }
small "at first"
exits 1 q backup --stdin-from-command -- sh -c 'head -c 40000000 /dev/urandom; exit 1'
large "a failed backup"
exits 0 q gc --trash-period 0
small "gc after a failed backup"

# Killed while it stores.
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin <"$dir/pipe" >"$dir/killed" 2>&1 &
backup=$!
exec 3>"$dir/pipe"
head -c 60000000 /dev/urandom >&3
enough() { [ "$(stored_bytes)" -gt 30000000 ]; }
wait_until enough
kill -9 $backup
wait $backup 2>/dev/null || true
exec 3>&-
exits 0 q gc --trash-period 0
small "gc after a killed backup"

# In a server, whose process goes on.
start_server
exits 1 q backup --stdin-from-command -- sh -c 'head -c 40000000 /dev/urandom; exit 1'
# Its threads may still be writing.
wait_until enough
exits 0 q gc --trash-period 0
small "gc in a server"
exits 0 q backup "$dir/src"
stop_server
sound
