#!/bin/sh
# While 64 writes of 300 ms each wait, reads of the same connection and of another one do not.
. "$(dirname "$0")/common.sh"
requires_nbdsh
example_server "slow writes"
serve --slow-write-us 300000 --size 16777216
nbdsh -u "$uri" -c "
import time
other = nbd.NBD()
other.connect_uri('$uri')
for number in range(64):
    h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(4096)), number * 4096)
took = []
for handle in (h, other):
    for number in range(200):
        began = time.monotonic()
        handle.pread(4096, number * 4096)
        took.append(time.monotonic() - began)
assert h.aio_in_flight() > 0, 'the writes were too quick to show anything'
took.sort()
# With writes in the way each read would take 300 ms.
assert took[-1] < 0.15, took[-5:]
while h.aio_in_flight():
    h.poll(-1)
h.flush()
"
