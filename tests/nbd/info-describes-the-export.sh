#!/bin/sh
# nbdinfo sees size, flags and block sizes through GO and INFO.
. "$(dirname "$0")/common.sh"
requires nbdinfo
serve --size 1048577
nbdinfo --json "$uri" >"$dir/info"
grep -q '"export-size": 1048577' "$dir/info" || fail "$(cat "$dir/info")"
grep -q '"is_read_only": false' "$dir/info"
grep -q '"can_fua": true' "$dir/info"
grep -q '"can_multi_conn": true' "$dir/info"
grep -q '"block_size_maximum": 33554432' "$dir/info"
grep -q '"base:allocation"' "$dir/info"
grep -q '"structured": true' "$dir/info"
