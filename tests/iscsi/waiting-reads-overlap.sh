#!/bin/sh
# Reads that wait for a slow device run side by side.
. "$(dirname "$0")/common.sh"
serve --size 1048576 --slow-us 500000
initiator <<'P'
from initiator import *
import time
i = Initiator().login()
began = time.monotonic()
for tag in range(48):
    i.command(struct.pack(">BBIBHB", 0x28, 0, tag, 0, 1, 0), 512, tag=tag)
tags = {int.from_bytes(i.receive()[0][16:20], "big") for _ in range(48)}
took = time.monotonic() - began
assert tags == set(range(48)), tags
# One after the other they wait 24 s.
assert took < 48 * 0.5 / 3, took
P
