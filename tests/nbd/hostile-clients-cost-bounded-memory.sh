#!/bin/sh
# A hundred clients that claim the largest requests and stall: the server's memory stays bounded, and
# another client is served while they stall.
. "$(dirname "$0")/common.sh"
requires_nbdsh
example_server "memory of its own"
serve --pool-mib 128 --pattern --size 67108864
nbdsh -u "$uri" -c "
import socket, struct, time
def resident():
    status = open('/proc/$server/status').read()
    return int(status.split('VmHWM:')[1].split()[0]) // 1024
before = resident()
def request(command, offset, length):
    return struct.pack('>IHHQQI', 0x25609513, 0, command, 1, offset, length)
clients = []
for number in range(100):
    s = socket.socket(socket.AF_UNIX)
    s.connect('$socket')
    s.sendall(bytes([0, 0, 0, 3]) + b'IHAVEOPT' + struct.pack('>II', 1, 4) + b'disk')
    s.settimeout(0.05)
    try:
        if number % 2:
            s.sendall(request(1, 0, 32 << 20) + bytes(31 << 20))
        else:
            s.sendall(request(0, 0, 32 << 20) * 64)
    except OSError:
        pass
    clients.append(s)
longest = 0
for number in range(500):
    began = time.monotonic()
    h.pread(4096, number * 4096)
    longest = max(longest, time.monotonic() - began)
grown = resident() - before
print('grown by', grown, 'MiB, longest read', longest)
# Two pools of 128 MiB, and about one MiB for each connection.
assert grown < 2 * 128 + 100 * 2 + 32, grown
# The server drops who stalls after 10 s. Whoever had to wait for that would have waited longer than this.
assert longest < 8, longest
" >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
cat "$dir/log"
