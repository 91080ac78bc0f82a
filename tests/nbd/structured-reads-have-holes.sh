#!/bin/sh
# A large read of a sparse disk comes as data and hole chunks; with DF as one chunk.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 16777216
nbdsh -u "$uri" -c '
h.pwrite(b"y" * 8192, 65536)
def chunks(flags):
    seen = []
    def chunk(buf, offset, status, err):
        seen.append((offset, len(buf), status))
    data = h.pread_structured(1048576, 0, chunk, flags)
    assert data == bytes(65536) + b"y" * 8192 + bytes(1048576 - 73728)
    return seen
assert chunks(nbd.CMD_FLAG_DF) == [(0, 1048576, nbd.READ_DATA)]
assert [c[2] for c in chunks(0)] == [nbd.READ_HOLE, nbd.READ_DATA, nbd.READ_HOLE]
'
