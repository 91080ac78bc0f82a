#!/usr/bin/env bash
# A server begins a scrub by itself when the last full one is too long ago, and none that it is told not to begin.
. "$(dirname "$0")/common.sh"
mkdir "$dir/src"
noise "$dir/src/noise" 4
new_pool
exits 0 q backup "$dir/src"
verified() { q scrub status | matches 'verified: in full'; }
began() { q scrub status --json | sed -n 's/.*"last":{[^}]*"began":"\([^"]*\)".*/\1/p'; }
# A new pool is left alone, and so is an old one where nobody wants it.
start_server
exits 0 q status
says 'scrubs: next '
stop_server
start_server --qos scrub-within=1s scrub=off
sleep 2
! verified || fail "it was told not to: $(cat "$dir/serve")"
exits 0 q qos set scrub=auto
wait_until verified
first=$(began)
[ -n "$first" ] || fail "$(q scrub status --json)"
grep -q 'scrub: a new pass begins' "$dir/serve" || fail "$(cat "$dir/serve")"
exits 0 q status
says 'scrubs: the last was started by the server itself'
again() { [ "$(began)" != "$first" ]; }
wait_until again
stop_server
sound
