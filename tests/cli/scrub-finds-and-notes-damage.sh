#!/usr/bin/env bash
# A scrub reads everything, goes on after an interruption, sets aside what rotted and names what it reaches;
# the next plain backup makes it whole.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
for n in 1 2 3; do noise "$dir/src/noise$n" 8; done
new_pool --parity 0
exits 0 q scrub status
says 'at rest'
says 'never in full'
exits 0 q backup "$dir/src"
exits 1 q scrub start
says 'no server'
exits 0 q scrub
says 'no damage'
exits 0 q scrub status
says 'in full from'
exits 0 q status
says 'verified: in full'
exits 0 q scrub --json
grep -q '"message_type":"summary".*"damaged":0' "$dir/out" || fail "$(cat "$dir/out")"
read_in_full=$(sed -n 's/.*"read_bytes":\([0-9]*\).*/\1/p' "$dir/out")
[ "$read_in_full" -gt $((24 << 20)) ] || fail "only $read_in_full bytes were read"

# Interrupted, it goes on from there.
"$QUINTET" scrub --limit 1M >"$dir/interrupted" 2>&1 &
scrub=$!
wait_until has_moved read $scrub 2000000
kill -INT $scrub
code=0
wait $scrub || code=$?
[ $code -eq 130 ] || fail "interrupted with $code: $(cat "$dir/interrupted")"
exits 0 q scrub status
says 'scrub: paused'
exits 0 q scrub --json
grep -q '"damaged":0' "$dir/out" || fail "$(cat "$dir/out")"
exits 0 q scrub status
says 'at rest'

# Three bytes in the middle of every large container change.
find "$pool/containers" -type f -size +1M | sort >"$dir/containers"
while read -r container; do
    at=$(($(stat -c %s "$container") / 2))
    printf '\377\376\375' | dd of="$container" bs=1 seek=$at conv=notrunc status=none
done <"$dir/containers"
exits 21 q scrub
says 'damage:'
says 'affected:'
says 'noise'
# It is noted: nothing is deduplicated against it, and what is backed up again is whole.
exits 21 q check
says 'noise'
exits 0 q backup "$dir/src"
exits 0 q scrub
sound
exits 0 q restore latest --target "$dir/back"
