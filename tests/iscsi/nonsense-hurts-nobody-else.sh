#!/bin/sh
# Clients that send nonsense, before and after their login, are dropped while another one works.
. "$(dirname "$0")/common.sh"
serve --size 1048576
initiator <<'P'
from initiator import *
import random
random.seed(7)
good = Initiator().login()
good.write(0, b"w" * 512)
for number in range(120):
    bad = Initiator("iqn.x:bad", timeout=5)
    try:
        if number % 3:
            bad.login(InitialR2T="No")
        for _ in range(50):
            raw = header(random.choice([0, 1, 2, 4, 5, 6, 16, 28, 0x3F]), random.randrange(256),
                         tag=random.choice([0, 1, NONE]), w20=random.choice([0, 512, 1 << 20, NONE]),
                         number=random.choice([0, 1, 2, NONE]),
                         cdb=bytes([random.choice([0x28, 0x2A, 0x41, 0x42, 0x5F, 0x89, 0x93, 0xA3])]) + os.urandom(15))
            raw[4] = random.choice([0, 0, 0, 1, 255])
            raw[5:8] = random.choice([b"\0\0\0", b"\0\2\0", b"\0\xff\xff", b"\xff\xff\xff"])
            bad.socket.sendall(bytes(raw) + os.urandom(random.choice([0, 512, 5000])))
    except (EOFError, ConnectionError, TimeoutError):
        pass
    bad.socket.close()
    assert good.run(bytes(6))[0] in (0, 2)
    status, sense, data = good.run(struct.pack(">BBIBHB", 0x28, 0, 0, 0, 1, 0), 512)
    # A bad one may have written, reserved or reset the unit: that is no harm to the session.
    assert status in (0, 2, 0x18), (status, sense)
P
