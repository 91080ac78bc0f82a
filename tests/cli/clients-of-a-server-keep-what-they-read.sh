#!/usr/bin/env bash
# An NBD client of a server keeps the state that it reads, though that is forgotten, purged and collected
# meanwhile; status, gc and the metrics name it. When the last client has gone, the next gc gives the space back.
. "$(dirname "$0")/common.sh"
requires python3 curl
new_pool --parity 0
noise "$dir/goes.img" 12
noise "$dir/stays.img" 1
exits 0 q import "$dir/goes.img" disk
state=disk@$(q snapshots --json | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -c7-14)
exits 0 q import "$dir/stays.img" disk
start_server --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0
url=$(sed -n 's/^metrics at //p' "$dir/serve")
holds() { curl -sf "$url" | grep "^quintet_holds{kind=\"$1\"}" | cut -d' ' -f2; }
# Connects to an export, says "connected"; reads all of it when asked to; leaves when asked to.
cat >"$dir/client.py" <<'PYTHON'
import os, socket, struct, sys, time
place, name, size, ask = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), sys.argv[4]
def receive(count):
    parts = []
    while count:
        got = s.recv(min(count, 1 << 20))
        assert got, "closed"
        parts.append(got)
        count -= len(got)
    return b"".join(parts)
def wait_for(name):
    while not os.path.exists(ask + name):
        time.sleep(0.05)
s = socket.socket(socket.AF_UNIX)
s.connect(place)
receive(18)
s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, len(name)) + name)
assert struct.unpack(">Q", receive(8))[0] == size
receive(2)
print("connected", flush=True)
wait_for(".read")
with open(ask + ".bytes", "wb") as out:
    for at in range(0, size, 1 << 20):
        s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, at, at, 1 << 20))
        magic, error, cookie = struct.unpack(">IIQ", receive(16))
        assert (magic, error, cookie) == (0x67446698, 0, at), "error %d at %d" % (error, at)
        out.write(receive(1 << 20))
print("read", flush=True)
wait_for(".leave")
PYTHON
size=$(stat -c %s "$dir/goes.img")
for client in one two; do
    background "$client" python3 "$dir/client.py" "$dir/nbd" "$state" "$size" "$dir/ask-$client"
    eval "$client=\$!"
    wait_until grep -q connected "$dir/$client"
done
exits 0 q status --json
matches '"holds":\[\]' <"$dir/out" || fail "held, and nothing is forgotten: $(cat "$dir/out")"
[ "$(holds nbd) $(holds mount)" = "2 0" ] || fail "holds: $(holds nbd) $(holds mount)"
exits 0 q forget "${state#disk@}"
exits 0 q status
says "2 NBD connections to $state"
exits 0 q gc -n --trash-period 0
says "1 purged snapshot that clients have open would keep"
for round in 1 2 3; do
    exits 0 q gc --trash-period 0
    says "1 purged snapshot that clients have open keep"
done
exits 1 q undelete "${state#disk@}"
exits 0 q gc --trash-period 0 --json
[ "$(number held_snapshots)" -eq 1 ] && [ "$(number held_containers)" -ge 1 ] || fail "$(cat "$dir/out")"
[ "$(number held_bytes)" -ge "$size" ] || fail "$(number held_bytes) bytes held of $size"
[ "$(stored_bytes)" -gt 12000000 ] || fail "gc deleted what clients read: $(stored_bytes) bytes are left"
exits 0 q status --json
matches "\"holds\":\[{\"snapshot\":\"${state#disk@}[0-9a-f]*\",\"kind\":\"nbd\",\"name\":\"$state\",\"since\":\"[^\"]*\",\"opens\":2}\]" \
    <"$dir/out" || fail "$(cat "$dir/out")"
# Nobody else can open it, and nothing of it was read before: the server has none of it in memory.
! python3 "$dir/client.py" "$dir/nbd" "$state" "$size" "$dir/ask-late" >/dev/null 2>&1 || fail "opened a purged state"
touch "$dir/ask-one.read"
wait_until grep -q '^read' "$dir/one"
cmp "$dir/ask-one.bytes" "$dir/goes.img" || fail "the client read something else"
# One leaves: the other keeps it all.
touch "$dir/ask-one.leave"
wait "$one" || fail "$(cat "$dir/one")"
is_alone() { [ "$(holds nbd)" = 1 ]; }
wait_until is_alone
exits 0 q gc --trash-period 0
touch "$dir/ask-two.read"
wait_until grep -q '^read' "$dir/two"
cmp "$dir/ask-two.bytes" "$dir/goes.img" || fail "the second client read something else"
sound
kill -9 "$two"
wait "$two" 2>/dev/null || true
is_free() { [ "$(holds nbd)" = 0 ]; }
wait_until is_free
exits 0 q gc --trash-period 0 --json
[ "$(number held_snapshots) $(number held_bytes)" = "0 0" ] || fail "$(cat "$dir/out")"
[ "$(stored_bytes)" -lt 3000000 ] || fail "$(stored_bytes) bytes stay and nobody has them open"
stop_server
sound
exits 0 q export disk "$dir/stays.out"
cmp "$dir/stays.out" "$dir/stays.img" || fail "what stays is something else"
