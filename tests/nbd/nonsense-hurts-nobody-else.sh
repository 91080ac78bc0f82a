#!/bin/sh
# Clients that send nonsense are dropped while another one works.
. "$(dirname "$0")/common.sh"
requires_nbdsh
serve --size 1048576
nbdsh -u "$uri" -c "
import os, socket
h.pwrite(b'w' * 1000, 0)
for number in range(50):
    s = socket.socket(socket.AF_UNIX)
    s.connect('$socket')
    try:
        s.sendall(bytes([0, 0, 0, 3]) + (b'IHAVEOPT' if number % 2 else b'') + os.urandom(5000))
    except OSError:
        pass
    s.close()
    assert h.pread(1000, 0) == b'w' * 1000
"
