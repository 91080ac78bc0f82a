#!/bin/sh
# WRITE_ZEROES with and without holes, FAST_ZERO, TRIM: all read as zeroes, neighbours stay.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
nbdsh -u "$uri" -c '
h.pwrite(b"x" * 100000, 0)
h.zero(1000, 10)
h.zero(1000, 20000, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
h.zero(1000, 30000, nbd.CMD_FLAG_FAST_ZERO)
h.trim(1000, 40000)
h.flush()
want = bytearray(b"x" * 100000)
for at in (10, 20000, 30000, 40000):
    want[at:at + 1000] = bytes(1000)
assert h.pread(100000, 0) == want
'
