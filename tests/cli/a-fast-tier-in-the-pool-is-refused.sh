#!/usr/bin/env bash
# --fast must not lie in the pool, nor the pool in it, also through links: refused with cause and remedy, before anything
# is made.
. "$(dirname "$0")/common.sh"
new_pool
mkdir "$dir/other"
ln -s "$pool" "$dir/other/link"
refuses() {
    local code=0
    timeout 60 "$QUINTET" serve --nbd-socket "$dir/nbd" --fast "$1" --fast-size 64M >"$dir/out" 2>&1 || code=$?
    { [ "$code" -ne 0 ] && [ "$code" -ne 124 ]; } || fail "--fast $1 was accepted ($code): $(cat "$dir/out")"
    grep -q "invalid --fast .*$2.*give a directory apart" "$dir/out" || fail "--fast $1: $(cat "$dir/out")"
}
find "$pool" | sort >"$dir/before"
refuses "$pool" 'it is in the pool'
refuses "$pool/tier" 'it is in the pool'
refuses "$pool/containers/../new/tier" 'it is in the pool'
refuses "$dir/other/link/tier" 'it is in the pool'
refuses "$(dirname "$pool")" 'the pool .* is in it'
refuses "$dir/other/link/.." 'the pool .* is in it'
find "$pool" | sort | cmp - "$dir/before" || fail "a refused server left something in the pool"
# Beside it is only slower.
start_server --nbd-socket "$dir/nbd" --fast "$dir/other/tier" --fast-size 64M
stop_server
