#!/usr/bin/env bash
# A flipped byte is found by exactly one subset of t, named, and everything else still restores.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
for n in 1 2 3 4 5 6; do noise "$dir/src/noise$n" 8; done
new_pool --parity 0
exits 0 q backup "$dir/src"
for part in 1 2 3; do exits 0 q check --read-data --subset $part/3; done
container=$(find "$pool/containers" -type f -size +1M | sort | sed -n 1p)
[ -n "$container" ] || fail "no container: $(find "$pool")"
# In the middle: data, not the directory.
at=$(($(stat -c %s "$container") / 2))
printf '\377\376\375' | dd of="$container" bs=1 seek=$at conv=notrunc status=none
bad=0
for part in 1 2 3; do
    # What another part has found is known to all later ones.
    rm -f "$pool"/cache/damage.*
    code=0
    q check --read-data --subset $part/3 >"$dir/out" 2>"$dir/err" || code=$?
    case $code in
    0) ;;
    21) bad=$((bad + 1)); says noise ;;
    *) fail "subset $part/3 exited with $code: $(cat "$dir/out" "$dir/err")" ;;
    esac
done
[ $bad -eq 1 ] || fail "$bad subsets of 3 found the damage"
exits 21 q check --read-data
says noise
for part in 1 2 3; do exits 21 q check --read-data --subset $part/3; done
code=0
q restore "latest:$dir/src" --target "$dir/back" >"$dir/out" 2>"$dir/err" || code=$?
[ $code -eq 21 ] || [ $code -eq 3 ] || fail "restore of a damaged file exited with $code"
damaged=0
for n in 1 2 3 4 5 6; do
    cmp -s "$dir/src/noise$n" "$dir/back/noise$n" || damaged=$((damaged + 1))
done
[ $damaged -le 2 ] || fail "$damaged of 6 files are damaged by three bytes"
