"""An initiator's session: commands side by side, until all of them are answered."""
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "iscsi"))
from initiator import COMMAND, DATA_OUT, NONE, NOP, Initiator, header

TARGET = "iqn.2026-11.org.quintet:"
GOOD, CHECK_CONDITION, CONFLICT = 0x00, 0x02, 0x18
BUSY = (0x08, 0x28)
UNIT_ATTENTION, MISCOMPARE = 6, 14
READ, WRITE, SYNC, WRITE_SAME, COMPARE_AND_WRITE, UNMAP = 0x88, 0x8A, 0x91, 0x93, 0x89, 0x42
RESERVE_IN, RESERVE_OUT = 0x5E, 0x5F
# What a target sends when it wants a logout, and the like: nothing that this initiator must answer.
NOP_IN, ANSWER, DATA_IN, ASKS, ASYNCHRONOUS = 0x20, 0x21, 0x25, 0x31, 0x32
SEGMENT_BYTES = 1 << 16


class Dropped(Exception):
    """The connection is gone, or the target ended the session."""


def sixteen(operation, lba, blocks, flags=0):
    """A command block with a block address of 64 bits."""
    return struct.pack(">BBQIBB", operation, flags, lba, blocks, 0, 0)


def compare_and_write(lba, blocks):
    return struct.pack(">BBQBBBBBB", COMPARE_AND_WRITE, 0, lba, 0, 0, 0, blocks, 0, 0)


def unmap(ranges):
    """The command block and its list."""
    listed = b"".join(struct.pack(">QII", lba, blocks, 0) for lba, blocks in ranges)
    data = struct.pack(">HHI", len(listed) + 6, len(listed), 0) + listed
    return struct.pack(">BBIBHB", UNMAP, 0, 0, 0, len(data), 0), data


class Session(Initiator):
    """Logged in to a volume at a portal."""

    def __init__(self, portal, volume, name, isid):
        self.commands, self.answers, self.parts = {}, {}, {}
        self.tag = self.status_number = self.immediate_bytes = 0
        try:
            super().__init__("iqn.2026-11.org.quintet:" + name, portal=portal)
            self.login(target=TARGET + volume, isid=isid, InitialR2T="Yes", MaxRecvDataSegmentLength="262144")
            # It has taken the unit attentions: what happened before concerns nobody here.
            self.immediate_bytes = min(int(self.keys.get("MaxRecvDataSegmentLength", 8192)), SEGMENT_BYTES)
        except (OSError, EOFError, AssertionError) as error:
            self.close()
            raise Dropped(f"{volume} at {portal}: {error!r}") from error

    def close(self):
        if hasattr(self, "socket"):
            self.socket.close()

    def start(self, cdb, expected=0, data=b"", retry=True):
        """Sends a command: its tag. With `retry` it is sent again for as long as the target does not execute it."""
        self.tag += 1
        self.commands[self.tag] = (cdb, expected, data, retry)
        self.transmit(self.tag)
        return self.tag

    def transmit(self, tag):
        cdb, expected, data, _ = self.commands[tag]
        flags = 0xA0 if data else 0xC0 if expected else 0x80
        now = data[:self.immediate_bytes]
        raw = header(COMMAND, flags | 1, now, tag, expected or len(data), self.number, cdb=cdb)
        raw[28:32] = struct.pack(">I", self.status_number)
        self.number += 1
        self.parts[tag] = []
        self.put(raw, now)

    def put(self, raw, data=b""):
        try:
            self.send(raw, data)
        except OSError as error:
            raise Dropped(repr(error)) from error

    def wait(self, tag=None):
        """Until every command that was started, or this one, is answered: `answers` has status, sense and data by tag."""
        while tag in self.commands if tag else self.commands:
            try:
                raw, data = self.receive()
            except (OSError, EOFError) as error:
                raise Dropped(repr(error)) from error
            self.take(raw, data, int.from_bytes(raw[16:20], "big"))

    def take(self, raw, data, tag):
        operation = raw[0] & 0x3F
        if operation in (ANSWER, NOP_IN, ASYNCHRONOUS) or operation == DATA_IN and raw[1] & 1:
            self.status_number = int.from_bytes(raw[24:28], "big") + 1 & NONE
        if operation == ASKS and tag in self.commands:
            self.deliver(raw, tag)
        elif operation == DATA_IN:
            self.parts[tag].append(data)
            if raw[1] & 1:
                self.answered(tag, raw[3], None)
        elif operation == ANSWER:
            self.answered(tag, raw[3], (data[4] & 15, data[14], data[15]) if len(data) > 15 else None)
        elif operation == NOP_IN:
            if raw[20:24] != b"\xff" * 4:
                reply = header(NOP | 0x40, tag=NONE, w20=int.from_bytes(raw[20:24], "big"), number=self.number)
                self.put(reply)
        elif operation != ASYNCHRONOUS:
            raise Dropped(f"the target sends {raw.hex()}")

    def deliver(self, raw, tag):
        """The part of the data that the target asks for."""
        transfer, at, length = int.from_bytes(raw[20:24], "big"), *struct.unpack(">II", raw[40:48])
        end, number = at + length, 0
        while at < end:
            part = self.commands[tag][2][at:min(at + SEGMENT_BYTES, end)]
            last = at + len(part) >= end
            self.put(header(DATA_OUT, 0x80 if last else 0, part, tag, transfer, w36=number, w40=at), part)
            at, number = at + len(part), number + 1

    def answered(self, tag, status, sense):
        attention = status == CHECK_CONDITION and sense and sense[0] == UNIT_ATTENTION
        if self.commands[tag][3] and (attention or status in BUSY):
            self.transmit(tag)
            return
        del self.commands[tag]
        self.answers[tag] = (status, sense, b"".join(self.parts.pop(tag)))

    def result(self, tag):
        return self.answers.pop(tag)

    def run(self, cdb, expected=0, data=b"", retry=True):
        tag = self.start(cdb, expected, data, retry)
        self.wait(tag)
        return self.result(tag)

    def must(self, cdb, expected=0, data=b""):
        """The data of a command that has to end well."""
        status, sense, found = self.run(cdb, expected, data)
        if status != GOOD:
            raise Dropped(f"command {cdb.hex()} ended with status {status:#x}, sense {sense}")
        return found

    def reserve(self, action, kind=0, key=0, other=0):
        """PERSISTENT RESERVE OUT: the status."""
        data = struct.pack(">QQIBBH", key, other, 0, 0, 0, 0)
        return self.run(struct.pack(">BBBHIB", RESERVE_OUT, action, kind, 0, len(data), 0), data=data)[0]
