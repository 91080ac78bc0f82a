#!/usr/bin/env bash
# gc through a server: volumes are written and backups run meanwhile; nothing that they need goes.
. "$(dirname "$0")/common.sh"
requires cmp qemu-io
mkdir "$dir/src"
new_pool
start_server --nbd-socket "$dir/nbd"
exits 0 q volume create v --size 24M
disk="nbd+unix:///v?socket=$dir/nbd"
io() { qemu-io -f raw "$disk" "$@" >"$dir/io" 2>&1 && ! grep -q 'fail\|error' "$dir/io" || fail "$(cat "$dir/io")"; }
for round in 1 2 3 4; do
    noise "$dir/src/file$round" 3
    exits 0 q backup "$dir/src"
    # The same pattern comes back in other rounds: it was given up meanwhile, or not.
    io -c "write -P $((round % 2 + 1)) 0 8M" -c "write -P $((round + 9)) 12M 4M" -c flush
    (q gc --trash-period 0 --json >"$dir/gc$round" 2>&1 || touch "$dir/gc.failed") &
    collecting=$!
    noise "$dir/src/new$round" 2
    exits 0 q backup "$dir/src"
    io -c "write -P $((round % 2 + 1)) 4M 8M" -c flush
    exits 0 q forget --keep-last 2
    wait $collecting
    [ ! -e "$dir/gc.failed" ] || fail "$(cat "$dir/gc$round")"
    io -c "read -P $((round % 2 + 1)) 0 12M" -c "read -P $((round + 9)) 12M 4M"
    rm "$dir/src/file$round"
done
exits 0 q backup "$dir/src"
exits 0 q forget --keep-last 1
before=$(stored_bytes)
exits 0 q gc --trash-period 0
exits 0 q gc --trash-period 0
[ "$(stored_bytes)" -lt "$before" ] || fail "nothing came back of $before bytes"
kill_server
start_server --nbd-socket "$dir/nbd"
io -c "read -P 1 0 12M" -c "read -P 13 12M 4M"
sound
exits 0 q restore latest --target "$dir/back"
same "$dir/src" "$dir/back$dir/src"
