#!/usr/bin/env bash
# Two live writers: the second is refused with 11; readers are not; a dead writer blocks nobody.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src" && echo x >"$dir/src/x"
new_pool
exits 0 q backup "$dir/src"
mkfifo "$dir/pipe"
"$QUINTET" backup --stdin <"$dir/pipe" >"$dir/log" 2>&1 &
writer=$!
exec 7>"$dir/pipe"
echo first >&7
# Asking for the lock to see whether it is taken would take it, and a lock file that is open may not be locked yet.
# The index is opened after the lock was taken, and stays open.
has_lock() { readlink "/proc/$writer/fd/"* | matches '/cache/fpi$'; }
wait_until has_lock
exits 11 q --wait 0 backup "$dir/src"
exits 11 q --wait 0 forget latest
exits 11 q --wait 0 tag --add t latest
exits 0 q snapshots
exits 0 q restore "latest:$dir/src" --target "$dir/out-tree"
kill -9 $writer
wait $writer 2>/dev/null || true
exec 7>&-
exits 0 q backup "$dir/src"
[ "$(snapshots)" -eq 2 ] || fail "$(snapshots) snapshots, expected 2"
sound
