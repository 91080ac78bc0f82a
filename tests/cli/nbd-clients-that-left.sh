#!/usr/bin/env bash
# Eight clients each ask for 600 reads of 32 MiB and leave, or stay and take nothing: what was not begun is
# dropped, and a neighbour reads its whole disk meanwhile. Requests are counted, not timed.
. "$(dirname "$0")/common.sh"
requires python3 curl qemu-img
new_pool
noise "$dir/image" 96
exits 0 q import "$dir/image" disk
exits 0 q volume clone disk vm
start_server --nbd-socket "$dir/nbd" --metrics 127.0.0.1:0 --memory 64MiB
url=$(sed -n 's/^metrics at //p' "$dir/serve")
metric() {
    curl -sf "$url" >"$dir/metrics" || fail "no metrics at $url"
    awk -v name="$1" '$1 == name { print $2 }' "$dir/metrics"
}
is_alone() { [ "$(metric quintet_nbd_connections)" = 0 ]; }
cat >"$dir/clients.py" <<'PYTHON'
import socket, struct, sys, time
def receive(s, count):
    while count:
        got = s.recv(count)
        assert got, "closed"
        count -= len(got)
clients = []
for number in range(8):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    receive(s, 18)
    s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 2) + b"vm")
    receive(s, 10)
    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, 32 << 20) * 600)
    clients.append(s)
if sys.argv[2] == "stay":
    print("asked", flush=True)
    time.sleep(600)
PYTHON
for round in 1 2 3; do
    python3 "$dir/clients.py" "$dir/nbd" leave || fail "the clients could not ask"
done
exits 0 qemu-img compare -f raw -F raw "$dir/image" "nbd+unix:///vm?socket=$dir/nbd"
wait_until is_alone
whole=$(metric 'quintet_export_bytes_total{export="vm",operation="read"}')
# The neighbour's 96 MiB, and at most two large reads of each of the 24 that left.
[ "$whole" -le $(((96 + 24 * 2 * 32) << 20)) ] || fail "$whole bytes were read for clients that are gone"
background clients python3 "$dir/clients.py" "$dir/nbd" stay
clients=$!
wait_until grep -q asked "$dir/clients"
exits 0 timeout --foreground 200 qemu-img compare -f raw -F raw "$dir/image" "nbd+unix:///vm?socket=$dir/nbd"
kill $clients
wait $clients 2>/dev/null || true
stop_server
sound
