#!/bin/sh
# Constraints are announced; a request of the largest size is served, one above is refused.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 67108864
nbdsh -u "$uri" -c '
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
assert h.get_block_size(nbd.SIZE_PREFERRED) == 4096
most = h.get_block_size(nbd.SIZE_MAXIMUM)
assert most == 32 << 20
h.pwrite(b"m" * most, 1)
assert h.pread(most, 1) == b"m" * most
h.set_strict_mode(0)
try:
    h.pread(most + 1, 0)
    raise SystemExit("was allowed")
except nbd.Error as e:
    assert e.errno in ("EINVAL", "ERANGE"), e
assert h.pread(1, 1) == b"m"
'
