#!/bin/sh
# A list of targets that is longer than one response continues, and is complete.
. "$(dirname "$0")/common.sh"
serve_controlled --size 1048576
for number in $(seq 100); do control add "$target-with-a-long-name-$number" 512 >/dev/null; done
initiator <<'P'
from initiator import *
i = Initiator().login(target=None, MaxRecvDataSegmentLength=1024)
data = pairs(SendTargets="All")
i.send(header(TEXT, 0x80, data, w20=NONE), data)
text, number = b"", 1
while True:
    raw, part = i.receive()
    assert len(part) <= 1024
    text += part
    if raw[1] & 0x80:
        break
    i.send(header(TEXT, 0x80, w20=int.from_bytes(raw[20:24], "big"), number=number))
    number += 1
assert text.count(b"TargetName=") == 101, text.count(b"TargetName=")
i = Initiator().login()
data = pairs(SendTargets="")
i.send(header(TEXT, 0x80, data, w20=NONE, number=i.number), data)
assert i.receive()[1].count(b"TargetName=") == 1
P
