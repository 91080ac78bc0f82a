#!/bin/sh
# A read-only volume is a write-protected disk.
. "$(dirname "$0")/common.sh"
serve --size 1048576 --read-only --pattern
initiator <<'P'
from initiator import *
i = Initiator().login()
assert i.read(1)[:8] == struct.pack(">Q", 512)
status, sense, _ = i.run(struct.pack(">BBIBHB", 0x2A, 0, 0, 0, 1, 0), data=bytes(512))
assert (status, sense) == (2, (7, 0x27, 0)), (status, sense)
status, _, mode = i.run(bytes([0x1A, 0, 0x3F, 0, 255, 0]), 255)
assert status == 0 and mode[2] & 0x80, mode[:4]
P
