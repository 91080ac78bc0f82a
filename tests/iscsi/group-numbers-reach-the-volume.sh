#!/bin/sh
# GROUP NUMBER of reads and writes is the class of the request when it reaches the volume.
. "$(dirname "$0")/common.sh"
serve_controlled --size 1048576 --classes
initiator <<'P'
from initiator import *
i = Initiator().login()
i.write(0, bytes(512), group=1)
for _ in range(3):
    i.read(0, group=7)
cdb = struct.pack(">BBQIBB", 0x88, 0, 0, 1, 63, 0)
assert i.run(cdb, 512)[0] == 0
cdb = struct.pack(">BBIIBB", 0xA8, 0, 0, 1, 21, 0)
assert i.run(cdb, 512)[0] == 0
# The page that advertises the groups.
status, _, page = i.run(struct.pack(">BBBB3xHB", 0x5A, 8, 0x0A, 5, 2000, 0), 2000)
assert status == 0 and len(page) == 8 + 16 + 64 * 16, len(page)
P
classes=$(control classes)
[ "$classes" = "classes 1:0r1w 7:3r0w 21:1r0w 63:1r0w" ] || fail "$classes"
