#!/bin/sh
# A hundred initiators that claim the largest commands and stall: the server's memory stays bounded,
# and another one is served while they stall.
. "$(dirname "$0")/common.sh"
serve --pool-mib 128 --pattern --size 67108864
initiator >"$dir/log" 2>&1 <<'P' || fail "$(cat "$dir/log")"
from initiator import *
import time
good = Initiator().login()
before = resident_mib()
clients = []
for number in range(100):
    i = Initiator(f"iqn.x:hostile{number}").login(InitialR2T="No", MaxRecvDataSegmentLength=262144)
    i.socket.settimeout(0.05)
    large = struct.pack(">BBQIBB", 0x8A if number % 2 else 0x88, 0, 0, 65536, 0, 0)
    try:
        for tag in range(64):
            if number % 4 == 1:
                # Unsolicited data, of which the last byte never comes.
                i.command(large, 32 << 20, bytes(65536 - 512), flags=0x20, tag=tag)
            else:
                i.command(large, 32 << 20, flags=0xA0 if number % 2 else 0xC0, tag=tag)
    except (OSError, TimeoutError):
        pass
    clients.append(i)
longest = 0
for number in range(500):
    began = time.monotonic()
    good.read(number * 8, 8)
    longest = max(longest, time.monotonic() - began)
grown = resident_mib() - before
print("grown by", grown, "MiB, longest read", longest)
# Two pools of 128 MiB; for each connection about one MiB, and the first bursts of a quarter of them.
assert grown < 2 * 128 + 100 * 2 + 25 * 6 + 32, grown
# The server drops who stalls after 10 s. Whoever had to wait for that would have waited longer than this.
assert longest < 8, longest
P
cat "$dir/log"
