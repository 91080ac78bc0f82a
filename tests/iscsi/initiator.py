"""A raw iSCSI initiator for negative tests: it sends what it is told to, right or wrong."""
import hashlib, os, socket, struct

PORTAL, TARGET, SERVER = (os.environ.get(name, "") for name in ("PORTAL", "TARGET", "SERVER"))
NONE = 0xFFFFFFFF
NOP, COMMAND, TASK, LOGIN, TEXT, DATA_OUT, LOGOUT = range(7)

_table = []
for _n in range(256):
    for _ in range(8):
        _n = _n >> 1 ^ (0x82F63B78 if _n & 1 else 0)
    _table.append(_n)


def crc32c(data):
    crc = NONE
    for byte in data:
        crc = _table[(crc ^ byte) & 255] ^ crc >> 8
    return struct.pack("<I", crc ^ NONE)


def pairs(**keys):
    return b"".join(f"{key}={value}".encode() + b"\0" for key, value in keys.items())


def header(op, flags=0x80, data=b"", tag=1, w20=0, number=0, w36=0, w40=0, lun=0, cdb=b""):
    raw = bytearray(48)
    raw[0], raw[1] = op, flags
    raw[5:8] = len(data).to_bytes(3, "big")
    raw[8:16] = (lun << 48).to_bytes(8, "big")
    raw[16:28] = struct.pack(">III", tag, w20, number)
    raw[36:44] = struct.pack(">II", w36, w40)
    if cdb:
        raw[32:32 + len(cdb)] = cdb
    return raw


class Initiator:
    def __init__(self, name="iqn.2026-11.org.quintet:test", timeout=60, portal=PORTAL):
        host, _, port = portal.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(timeout)
        self.name, self.number = name, 0
        self.header_digest = self.data_digest = False

    def send(self, raw, data=b""):
        raw = bytes(raw)
        if self.header_digest:
            raw += crc32c(raw)
        padded = data + bytes(-len(data) % 4)
        if self.data_digest and data:
            padded += crc32c(padded)
        self.socket.sendall(raw + padded)

    def bytes(self, count):
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                raise EOFError
            got += part
        return got

    def receive(self):
        raw = self.bytes(48)
        if self.header_digest:
            assert self.bytes(4) == crc32c(raw), "header digest"
        length = int.from_bytes(raw[5:8], "big")
        data = self.bytes(length + -length % 4)
        if self.data_digest and length:
            assert self.bytes(4) == crc32c(data), "data digest"
        return raw, data[:length]

    def login(self, flags=0x87, target=TARGET, expect=0, isid=None, **keys):
        names = dict(InitiatorName=self.name, SessionType="Normal")
        if target:
            names["TargetName"] = target
        else:
            names["SessionType"] = "Discovery"
        data = pairs(**names, **keys)
        raw = header(LOGIN | 0x40, flags, data)
        # ISID: random, so that initiators of one name do not replace each other.
        raw[8:14] = isid or b"\x80" + os.urandom(5)
        self.send(raw, data)
        raw, text = self.receive()
        status = int.from_bytes(raw[36:38], "big")
        assert status == expect, hex(status)
        self.keys = dict(p.split("=", 1) for p in text.decode().split("\0") if p)
        self.header_digest = self.keys.get("HeaderDigest") == "CRC32C"
        self.data_digest = self.keys.get("DataDigest") == "CRC32C"
        if target and not status and raw[1] & 0x83 == 0x83:
            self.settle()
        return self

    def login_chap(self, user, secret, target=TARGET, expect=0, isid=None):
        """Logs in with CHAP and MD5."""
        isid = isid or b"\x80" + os.urandom(5)

        def ask(flags, **keys):
            data = pairs(**keys)
            raw = header(LOGIN | 0x40, flags, data)
            raw[8:14] = isid
            self.send(raw, data)
            raw, text = self.receive()
            answer = dict(p.split("=", 1) for p in text.decode().split("\0") if p)
            return int.from_bytes(raw[36:38], "big"), answer

        names = dict(InitiatorName=self.name, SessionType="Normal", TargetName=target)
        status, answer = ask(0x81, AuthMethod="CHAP", **names)
        if not status:
            status, answer = ask(0, CHAP_A="5")
        if not status:
            challenge = bytes.fromhex(answer["CHAP_C"][2:])
            proof = hashlib.md5(bytes([int(answer["CHAP_I"])]) + secret.encode() + challenge)
            status, answer = ask(0x83, CHAP_N=user, CHAP_R="0x" + proof.hexdigest())
        assert status == expect, hex(status)
        if not status:
            self.settle()
        return self

    def settle(self):
        """Takes the unit attentions, as real initiators do after a login."""
        while self.run(bytes(6))[0] == 2:
            pass

    def command(self, cdb, expected=0, data=b"", flags=None, tag=1):
        if flags is None:
            flags = 0xA0 if data else 0xC0 if expected else 0x80
        raw = header(COMMAND, flags, data, tag, expected or len(data), self.number, cdb=cdb)
        self.number += 1
        self.send(raw, data)

    def run(self, cdb, expected=0, data=b""):
        """Runs a command; returns status, sense (key, code, qualifier) and data."""
        self.command(cdb, expected, data)
        got = b""
        while True:
            raw, part = self.receive()
            if raw[0] == 0x25:
                got += part
                if raw[1] & 1:
                    return raw[3], None, got
            elif raw[0] == 0x21:
                sense = (part[4], part[14], part[15]) if part else None
                return raw[3], sense, got
            else:
                raise AssertionError(hex(raw[0]))

    def read(self, lba, blocks=1, group=0):
        cdb = struct.pack(">BBIBHB", 0x28, 0, lba, group, blocks, 0)
        status, sense, data = self.run(cdb, blocks * 512)
        assert status == 0, sense
        return data

    def write(self, lba, data, group=0):
        cdb = struct.pack(">BBIBHB", 0x2A, 0, lba, group, len(data) // 512, 0)
        status, sense, _ = self.run(cdb, data=data)
        assert status == 0, sense

    def is_dropped(self):
        try:
            while True:
                self.receive()
        except (EOFError, ConnectionError):
            return True
        except TimeoutError:
            return False


def resident_mib():
    status = open(f"/proc/{SERVER}/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024
