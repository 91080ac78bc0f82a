#!/bin/sh
# 512 requests under way on one connection, answered in whatever order.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 4194304
nbdsh -u "$uri" -c '
buffers = []
for i in range(512):
    data = bytes([i % 251 + 1]) * 4096
    h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), i * 4096)
while h.aio_in_flight():
    h.poll(-1)
for i in range(512):
    buffer = nbd.Buffer(4096)
    buffers.append(buffer)
    h.aio_pread(buffer, i * 4096)
while h.aio_in_flight():
    h.poll(-1)
for i, buffer in enumerate(buffers):
    assert buffer.to_bytearray() == bytes([i % 251 + 1]) * 4096, i
'
