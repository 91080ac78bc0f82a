#!/usr/bin/env bash
# Damage in the pool is an I/O error of the file that it hits, told once, and of no other.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
for n in 1 2 3 4 5 6; do noise "$dir/src/noise$n" 8; done
new_pool --parity 0
exits 0 q backup "$dir/src"
container=$(find "$pool/containers" -type f -size +1M | sort | sed -n 1p)
printf '\377\376\375' | dd of="$container" bs=1 seek=$(($(stat -c %s "$container") / 2)) conv=notrunc status=none
show
there=$mount/snapshots/latest$dir/src
damaged=()
for n in 1 2 3 4 5 6; do
    cmp "$there/noise$n" "$dir/src/noise$n" >/dev/null 2>"$dir/said" || {
        grep -q 'Input/output error' "$dir/said" || fail "noise$n: $(cat "$dir/said")"
        damaged+=("noise$n")
    }
done
[ ${#damaged[@]} -ge 1 ] && [ ${#damaged[@]} -le 2 ] || fail "${#damaged[@]} of 6 files are damaged by three bytes"
cat "$there/${damaged[0]}" >/dev/null 2>&1 || true
[ "$(grep -c "${damaged[0]}" "$dir/mount.err")" -eq 1 ] || fail "not told once: $(cat "$dir/mount.err")"
# What is intact of a damaged file is there.
head -c 65536 "$there/${damaged[0]}" | cmp -n 65536 - "$dir/src/${damaged[0]}" ||
    tail -c 65536 "$there/${damaged[0]}" | cmp - <(tail -c 65536 "$dir/src/${damaged[0]}") || fail "nothing of it can be read"
unshow
