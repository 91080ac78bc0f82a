#!/usr/bin/env bash
# Persistent reservations that were registered with APTPL are there after the server was killed, hold against other
# initiators from the first command on, follow a volume to its new name, and go with the volume. Without APTPL they end
# with the server.
. "$(dirname "$0")/common.sh"
requires python3
new_pool
exits 0 q volume create web --size 8M
exits 0 q volume create other --size 8M
serve() {
    start_server --iscsi-listen 127.0.0.1:0
    portal=$(sed -n 's|.*iscsi://\(127.0.0.1:[0-9]*\).*|\1|p' "$dir/serve")
}
# initiator VOLUME <SCRIPT
initiator() {
    { cat "$dir/helpers.py" && cat; } >"$dir/run.py"
    PYTHONPATH=$here/../iscsi PYTHONDONTWRITEBYTECODE=1 PORTAL=$portal TARGET=iqn.2026-11.org.quintet:$1 \
        timeout --foreground 120 python3 "$dir/run.py" >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
}
cat >"$dir/helpers.py" <<'P'
from initiator import *
CONFLICT = 0x18
def port(name):
    return Initiator(name=f"iqn.x:{name}").login(isid=b"\x80\0\0\0\0\1")
def out(i, action, current, service, persists=0, kind=5):
    data = struct.pack(">QQLBBH", current, service, 0, persists, 0, 0)
    return i.run(struct.pack(">BBBLHB", 0x5F, action, kind, 0, 24, 0), data=data)[0]
def keys(i):
    status, sense, data = i.run(struct.pack(">BBLBHB", 0x5E, 0, 0, 0, 256, 0), 256)
    assert status == 0, sense
    return [key for key, in struct.iter_unpack(">Q", data[8:])]
def writes(i):
    return i.run(struct.pack(">BBIBHB", 0x2A, 0, 0, 0, 1, 0), data=bytes(512))[0]
P
serve
initiator web <<'P'
a, b = port("a"), port("b")
capabilities = a.run(struct.pack(">BBLBHB", 0x5E, 2, 0, 0, 8, 0), 8)[2]
assert capabilities[2] == 1 and capabilities[3] == 0x80, capabilities
assert out(a, 0, 0, 7, persists=1) == 0 and out(a, 1, 7, 0) == 0
assert (writes(a), writes(b)) == (0, CONFLICT)
P
initiator other <<'P'
assert out(port("a"), 0, 0, 7) == 0
P
kill_server
serve
initiator web <<'P'
b, a = port("b"), port("a")
assert (writes(b), writes(a)) == (CONFLICT, 0)
assert keys(b) == [7], keys(b)
assert a.run(struct.pack(">BBLBHB", 0x5E, 2, 0, 0, 8, 0), 8)[2][3] == 0x81
# The same key from another port of the same initiator is no registration.
assert writes(Initiator(name="iqn.x:a").login()) == CONFLICT
P
initiator other <<'P'
assert keys(port("a")) == []
P
stop_server
# The check of a pool with such entries.
sound
exits 0 q volume rename web moved
serve
initiator moved <<'P'
b, a = port("b"), port("a")
assert writes(b) == CONFLICT and keys(b) == [7]
# Fenced, and that survives too.
assert out(b, 0, 0, 9, persists=1) == 0 and out(b, 4, 9, 7) == 0
P
kill_server
serve
initiator moved <<'P'
a, b = port("a"), port("b")
assert (writes(a), writes(b)) == (CONFLICT, 0)
assert keys(a) == [9]
P
exits 0 q volume delete moved --yes
exits 0 q volume create moved --size 8M
initiator moved <<'P'
a = port("a")
assert keys(a) == [] and writes(a) == 0
P
# A snapshot cannot keep them.
exits 0 q volume snapshot moved@s
initiator moved:s <<'P'
a = port("a")
assert a.run(struct.pack(">BBLBHB", 0x5E, 2, 0, 0, 8, 0), 8)[2][2] == 0
assert out(a, 0, 0, 7, persists=1) == 2
P
stop_server
sound
