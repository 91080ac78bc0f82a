#!/bin/sh
# A TCP client whose machine is gone, without a goodbye: its connection ends by itself.
. "$(dirname "$0")/common.sh"
requires_nbdsh
[ "$(id -u)" -eq 0 ] || { echo "only root can make a TCP client vanish"; exit 77; }
example_server "limit for vanished clients"
$QUINTET_NBD_SERVER --tcp --vanished-s 2 --size 1048576 127.0.0.1:0 >"$dir/server.log" 2>&1 &
server=$!
accepts
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/server.log")
status=0
nbdsh -u "nbd://127.0.0.1:$port" -c "
import os, socket, struct, sys, time
def descriptors():
    return len(os.listdir('/proc/$server/fd'))
before = descriptors()
silent = socket.create_connection(('127.0.0.1', $port))
gone = socket.create_connection(('127.0.0.1', $port))
for s in (silent, gone):
    s.sendall(bytes([0, 0, 0, 3]) + b'IHAVEOPT' + struct.pack('>II', 1, 4) + b'disk')
    received = 0
    while received < 18 + 10:
        received += len(s.recv(4096))
assert descriptors() == before + 2
try:
    # Closed in repair mode, a socket says nothing.
    gone.setsockopt(socket.IPPROTO_TCP, 19, 1)
except OSError as e:
    print('no repair mode here:', e)
    sys.exit(77)
gone.close()
began = time.monotonic()
while descriptors() > before + 1:
    h.pread(512, 0)
    assert time.monotonic() - began < 60, 'still connected'
    time.sleep(0.05)
# Silence alone ends nothing.
time.sleep(4)
assert descriptors() == before + 1
silent.sendall(struct.pack('>IHHQQI', 0x25609513, 0, 3, 7, 0, 0))
assert len(silent.recv(16)) == 16
" || status=$?
[ $status -eq 0 ] || exit $status
