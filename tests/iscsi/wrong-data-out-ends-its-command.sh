#!/bin/sh
# Data that does not follow in order ends its command with sense, and no other; nothing is written.
. "$(dirname "$0")/common.sh"
serve --size 1048576
initiator <<'P'
from initiator import *
i = Initiator().login()
i.write(0, b"a" * 1024)
cdb = struct.pack(">BBIBHB", 0x2A, 0, 0, 0, 2, 0)
def asked():
    i.command(cdb, 1024, flags=0xA0, tag=9)
    raw, _ = i.receive()
    assert raw[0] == 0x31, raw
    return int.from_bytes(raw[20:24], "big")
def out(transfer, number, offset, data, flags=0x80):
    i.send(header(DATA_OUT, flags, data, 9, transfer, w36=number, w40=offset), data)
for wrong in [dict(number=1, offset=0), dict(number=0, offset=512), dict(number=NONE, offset=0)]:
    out(asked(), data=b"b" * 1024, **wrong)
    raw, sense = i.receive()
    assert (raw[0], raw[3], sense[4], sense[14:16]) == (0x21, 2, 0x0B, b"\x0c\x0d"), (raw, sense)
# Too little, too much, another tag.
out(asked(), 0, 0, b"b" * 512)
assert i.receive()[0][3] == 2
out(asked(), 0, 0, b"b" * 1536)
assert i.receive()[0][3] == 2
out(asked() + 1, 0, 0, b"b" * 1024)
assert i.receive()[0][3] == 2
# Data of a command that has ended is ignored.
out(1, 0, 0, b"b" * 1024)
assert i.read(0, 2) == b"a" * 1024
transfer = asked()
out(transfer, 0, 0, b"c" * 512, flags=0)
out(transfer, 1, 512, b"d" * 512)
assert i.receive()[0][3] == 0
assert i.read(0, 2) == b"c" * 512 + b"d" * 512
P
