#!/bin/sh
# The oldest newstyle clients name an export and nothing else, with and without NO_ZEROES.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
for flags in 0 1 2 3; do
    nbdsh -c "
h.set_handshake_flags($flags)
h.connect_uri('$uri')
h.pwrite(b'a', 1)
assert h.pread(1, 1) == b'a'
assert h.get_size() == 1048576
" || fail "handshake flags $flags"
done
