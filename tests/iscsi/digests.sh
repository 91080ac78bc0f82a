#!/bin/sh
# Header digests with qemu, both digests with the raw initiator; a wrong one ends the session.
. "$(dirname "$0")/common.sh"
requires_qemu_iscsi
serve --size 1048576
qemu-io -c 'write -P 5 0 128k' -c 'read -P 5 0 128k' --image-opts \
    "driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=$portal,file.target=$target,file.lun=0,file.header-digest=crc32c" \
    >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
! grep -qi fail "$dir/log" || fail "$(cat "$dir/log")"
initiator <<'P'
from initiator import *
i = Initiator().login(HeaderDigest="CRC32C,None", DataDigest="CRC32C,None")
assert i.header_digest and i.data_digest
i.write(8, bytes(range(256)) * 2)
assert i.read(8) == bytes(range(256)) * 2
assert len(i.read(0, 100)) == 51200
# Wrong data: rejected with its reason, then dropped, and nothing is written.
raw = header(COMMAND, 0xA0, bytes(512), w20=512, number=i.number, cdb=struct.pack(">BBIBHB", 0x2A, 0, 8, 0, 1, 0))
i.socket.sendall(bytes(raw) + crc32c(raw) + bytes(512) + b"nope")
raw, _ = i.receive()
assert (raw[0], raw[2]) == (0x3F, 2), raw
assert i.is_dropped()
i = Initiator().login(HeaderDigest="CRC32C", DataDigest="CRC32C")
assert i.read(8) == bytes(range(256)) * 2
# A wrong header is not answered: its lengths cannot be trusted.
i.socket.sendall(bytes(header(NOP, tag=5)) + b"nope")
assert i.is_dropped()
P
