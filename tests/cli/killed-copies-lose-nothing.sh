#!/usr/bin/env bash
# kill -9 at many moments of a copy, and an interruption: nothing wrong on either side, and what had arrived is not stored
# again.
# Sealed: chunks go from the keys of one pool to those of another.
# seconds: 600
. "$(dirname "$0")/common.sh"
sealed
other_pool
mkdir "$dir/src"
for n in 1 2 3; do noise "$dir/src/noise$n" 20; done
real_tree "$dir/src/real" 20
noise "$dir/image" 80
new_pool
exits 0 q backup "$dir/src"
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk@latest machine
exits 0 q volume snapshot machine@monday
# What one undisturbed copy stores, and how long it takes.
QUINTET_REPOSITORY=$dir/reference QUINTET_PASSWORD=$QUINTET_TO_PASSWORD q init >/dev/null 2>&1
started=$(date +%s%N)
exits 0 q copy --all --to "$dir/reference"
took=$((($(date +%s%N) - started) / 1000000))
reference=$(du -sb "$dir/reference/containers" | cut -f1)
new_other_pool
most=0
for n in 1 2 3 4 5 6 7 8; do
    "$QUINTET" copy --all >/dev/null 2>&1 &
    copy=$!
    sleep "$(awk -v took=$took -v n=$n 'BEGIN { printf "%.3f", took * n / 9000 }')"
    kill -9 $copy 2>/dev/null || true
    wait $copy 2>/dev/null || true
    exits 0 o snapshots
    exits 0 o check
    [ "$(stored_bytes "$other")" -le $most ] || most=$(stored_bytes "$other")
done
[ $most -gt 10000000 ] || fail "no killed copy left a container: nothing was tested"
# Interrupted: 130, and the next one goes on.
"$QUINTET" copy --all --limit 8M >"$dir/out" 2>&1 &
copy=$!
wait_until catches_interrupts $copy
if kill -INT $copy 2>/dev/null; then
    code=0
    wait $copy || code=$?
    [ $code -eq 130 ] || [ $code -eq 0 ] || fail "an interrupted copy ended with $code: $(cat "$dir/out")"
fi
exits 0 q copy --all
exits 0 o check --read-data
exits 0 o restore "latest:$dir/src" --target "$dir/back"
same "$dir/src" "$dir/back"
exits 0 o export -f raw machine@monday "$dir/exported"
cmp "$dir/image" "$dir/exported"
total=$(stored_bytes "$other")
[ "$total" -lt $((reference * 3 / 2)) ] ||
    fail "killed copies and one whole one stored $total bytes, one undisturbed copy $reference"
[ -z "$(find "$other/tmp" -type f 2>/dev/null)" ] || fail "half-written files are left"
sound
