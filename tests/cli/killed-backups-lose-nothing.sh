#!/usr/bin/env bash
# kill -9 at many moments of a backup: no manual step, nothing wrong, and what was stored is used.
# Sealed: a killed backup must leave no half-written seal behind.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
mkdir "$dir/src"
for n in 1 2 3 4; do noise "$dir/src/noise$n" 20; done
real_tree "$dir/src/real" 40
# What one undisturbed backup stores, and how long it takes.
QUINTET_REPOSITORY=$dir/reference q init >/dev/null 2>&1
started=$(date +%s%N)
QUINTET_REPOSITORY=$dir/reference q backup "$dir/src" >/dev/null 2>&1
took=$((($(date +%s%N) - started) / 1000000))
reference=$(du -sb "$dir/reference/containers" | cut -f1)
new_pool
echo small >"$dir/small"
exits 0 q backup "$dir/small"
most=0
for n in 1 2 3 4 5 6 7 8 9 10; do
    "$QUINTET" backup "$dir/src" >/dev/null 2>&1 &
    backup=$!
    sleep "$(awk -v took=$took -v n=$n 'BEGIN { printf "%.3f", took * n / 11000 }')"
    kill -9 $backup 2>/dev/null || true
    wait $backup 2>/dev/null || true
    exits 0 q snapshots
    exits 0 q check
    [ "$(stored_bytes)" -le $most ] || most=$(stored_bytes)
done
[ $most -gt 10000000 ] || fail "no killed run left a container: nothing was tested"
exits 0 q backup "$dir/src"
exits 0 q restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
sound
total=$(stored_bytes)
[ "$total" -lt $((reference * 3 / 2)) ] ||
    fail "ten killed runs and one whole one stored $total bytes, one undisturbed run $reference"
[ -z "$(find "$pool/tmp" -type f 2>/dev/null)" ] || fail "half-written files are left"
