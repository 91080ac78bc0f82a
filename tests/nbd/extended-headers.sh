#!/bin/sh
# Clients that know extended headers get them, and 64-bit lengths with them.
. "$(dirname "$0")/common.sh"
requires_extended_headers
requires nbdinfo
serve --size 1099511627776
nbdsh -u "$uri" -c '
assert h.get_extended_headers_negotiated()
assert h.can_block_status_payload()
h.pwrite(b"x", 1 << 39)
h.pwrite(b"y" * 8192, 5 << 30)
h.zero(8 << 30, 0)
assert h.pread(8192, 5 << 30) == bytes(8192)
assert h.pread(1, 1 << 39) == b"x"
h.cache(1 << 40, 0)
h.trim(1 << 39, 1 << 39)
assert h.pread(1, 1 << 39) == bytes(1)
'
# One question for the whole terabyte, one answer.
nbdinfo --map "$uri" >"$dir/map"
grep -q '^ *0 *1099511627776 *3 *hole,zero' "$dir/map" || fail "$(cat "$dir/map")"
nbdinfo "$uri" >"$dir/info"
grep -q 'extended' "$dir/info" || fail "$(cat "$dir/info")"
