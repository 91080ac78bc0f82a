#!/bin/sh
# CAN_MULTI_CONN is announced, and kept: what one connection wrote, another reads and flushes.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
nbdsh -u "$uri" -c "
assert h.can_multi_conn()
others = [nbd.NBD() for _ in range(8)]
for other in others:
    other.connect_uri('$uri')
for number, other in enumerate(others * 20):
    data = bytes([number]) * 5000
    other.pwrite(data, number * 5000)
    reader = others[(number + 1) % 8]
    assert reader.pread(5000, number * 5000) == data
    reader.flush()
    reader.trim(5000, number * 5000)
    assert h.pread(5000, number * 5000) == bytes(5000)
"
