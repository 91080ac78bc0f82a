#!/usr/bin/env bash
# A stream that is backed up again and again comes to lie in short runs; defrag puts these together, comes to
# rest, and leaves the long ones. Every byte of the newest and of an older state is the same.
. "$(dirname "$0")/common.sh"
requires cmp dd
new_pool
# Changes come to lie in the first 9 MB. The 11 MB behind them lie in three containers at most, so at least one run
# there is longer than defrag moves (SPARSE_BYTES), wherever chunks and containers end.
size=$((20 << 20))
longest_moved=3495253
noise "$dir/stream" 20
for round in 0 1 2 3 4 5; do
    q backup -q --stdin --stdin-filename dump --tag "round$round" <"$dir/stream" >"$dir/out" || fail "$(cat "$dir/out")"
    [ $round -ne 2 ] || cp "$dir/stream" "$dir/older"
    [ $round -ne 5 ] || break
    for piece in 0 1 2 3; do
        dd if=/dev/urandom of="$dir/stream" bs=64K count=1 conv=notrunc status=none \
            seek=$(((round * 5 + piece * 37) % 190))
    done
done
number() {
    grep -o "\"$1\":[0-9.]*" "$dir/out" | tail -n "${2:-1}" | head -n 1 | cut -d: -f2
}
exits 0 q defrag --json --bypass --move-shared dump
[ "$(number ranges_moved)" -ge 1 ] || fail "$(cat "$dir/out")"
copied=$(number copied_bytes)
[ "$copied" -gt 500000 ] && [ "$copied" -lt $((size - longest_moved)) ] || fail "$copied bytes copied: $(cat "$dir/out")"
[ "$(number places 1)" -lt "$(number places 2)" ] || fail "$(cat "$dir/out")"
# A run that crosses the border of two segments is shorter when one of them has gone, and may be worth moving then.
for _ in 1 2 3; do
    exits 0 q defrag --json --bypass --move-shared dump
    again=$(number copied_bytes)
    [ "$again" -le $((copied / 2)) ] || fail "again: $(cat "$dir/out")"
    copied=$again
done
[ "$copied" -eq 0 ] || fail "it does not come to rest: $(cat "$dir/out")"
exits 0 q gc --trash-period 0
sound
q dump --tag round5 latest >"$dir/after" || fail "dump"
cmp "$dir/stream" "$dir/after" || fail "other bytes"
q dump --tag round2 latest >"$dir/after" || fail "dump"
cmp "$dir/older" "$dir/after" || fail "other bytes"
