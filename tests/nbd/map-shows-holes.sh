#!/bin/sh
# A new disk is one hole; what was written is data.
. "$(dirname "$0")/common.sh"
requires nbdinfo
requires_nbdsh
serve --size 1073741824
nbdinfo --map "$uri" >"$dir/map"
grep -q '^ *0 *1073741824 *3 *hole,zero' "$dir/map" || fail "$(cat "$dir/map")"
nbdsh -u "$uri" -c 'h.pwrite(b"x" * 65536, 1048576)'
nbdinfo --map "$uri" >"$dir/map"
grep -q '^ *1048576 *65536 *0 *data' "$dir/map" || fail "$(cat "$dir/map")"
