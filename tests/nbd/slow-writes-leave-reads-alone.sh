#!/bin/sh
# While 64 writes wait, more than a connection has threads for, reads of the same connection and of another one do not:
# 400 of them are answered before the first write, which takes 1.5 s.
. "$(dirname "$0")/common.sh"
requires_nbdsh
example_server "slow writes"
serve --slow-write-us 1500000 --size 16777216
nbdsh -u "$uri" -c "
other = nbd.NBD()
other.connect_uri('$uri')
answered = []
def count(error):
    answered.append(error)
    return 1
for number in range(64):
    h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(4096)), number * 4096, count)
for handle in (h, other):
    for number in range(200):
        handle.pread(4096, number * 4096)
    h.poll(0)
assert not answered, f'{len(answered)} writes were answered before the reads'
while len(answered) < 64:
    h.poll(-1)
assert not any(answered), answered
h.flush()
"
