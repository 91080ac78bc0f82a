#!/bin/sh
# Clients that know extended headers get them, and 64-bit lengths with them.
. "$(dirname "$0")/common.sh"
requires_nbdsh
nbdsh -c 'h.get_extended_headers_negotiated' 2>/dev/null ||
    { echo "this libnbd does not know extended headers"; exit 77; }
serve --size 1099511627776
nbdsh -u "$uri" -c '
assert h.get_extended_headers_negotiated()
h.zero(8 << 32, 0)
h.pwrite(b"x", 1 << 39)
assert h.pread(1, 1 << 39) == b"x"
'
