#!/bin/sh
# A target that is removed asks its initiators to log out, and its sessions end.
. "$(dirname "$0")/common.sh"
serve_controlled --size 1048576
control add iqn.2026-11.org.quintet:other 1048576
mkfifo "$dir/ready"
initiator "$dir/ready" <<'P' &
from initiator import *
import sys
i = Initiator().login(target="iqn.2026-11.org.quintet:other")
polite = Initiator().login(target="iqn.2026-11.org.quintet:other")
open(sys.argv[1], "w").close()
raw, _ = polite.receive()
assert (raw[0], raw[36]) == (0x32, 1), raw
polite.send(header(LOGOUT | 0x40))
raw, _ = polite.receive()
assert (raw[0], raw[2]) == (0x26, 0), raw
raw, _ = i.receive()
assert (raw[0], raw[36]) == (0x32, 1), raw
assert i.is_dropped()
Initiator().login(target="iqn.2026-11.org.quintet:other", expect=0x0203)
Initiator().login()
P
client=$!
cat "$dir/ready"
[ "$(control sessions iqn.2026-11.org.quintet:other)" = "2 sessions" ] || fail "sessions"
[ "$(control remove iqn.2026-11.org.quintet:other)" = "removed, 2 sessions" ] || fail "removed"
wait $client
client=
