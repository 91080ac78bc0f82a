#!/usr/bin/env bash
# kill -9 during short commits: each leaves the pool as before or as after.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
new_pool
for n in 1 2 3 4 5 6; do
    echo "$n" >"$dir/src/$n"
    exits 0 q backup --tag "n$n" "$dir/src"
done
before=$(snapshots)
# How long one that is not killed takes; the kills are spread over that, and a bit more.
started=${EPOCHREALTIME/./}
exits 0 q tag --add whole latest
took=$((${EPOCHREALTIME/./} - started))
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
    "$QUINTET" tag --add "again$n" latest >/dev/null 2>&1 &
    change=$!
    sleep "$(awk -v took=$took -v n=$n 'BEGIN { printf "%.6f", took * n / 11000000 }')"
    kill -9 $change 2>/dev/null || true
    wait $change 2>/dev/null || true
    [ "$(snapshots)" -eq "$before" ] || fail "$(snapshots) snapshots, expected $before"
    exits 0 q check
done
exits 0 q forget latest
[ "$(snapshots)" -eq $((before - 1)) ] || fail "forget after kills: $(snapshots)"
sound
