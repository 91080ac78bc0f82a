"""The ways to a volume: NBD, iSCSI and a file of a mount. Each sends changes of sectors, reads of pages and flushes, waits for
the answers, and says of each request whether it ended well."""
import ctypes
import mmap
import os
from contextlib import contextmanager

import nbd
from content import PAGE_BYTES, SECTOR_BYTES, SECTORS, sectors
from target import GOOD, READ, SYNC, WRITE, WRITE_SAME, Dropped, Session, sixteen, unmap

LIBC = ctypes.CDLL(None, use_errno=True)
PUNCH_HOLE_KEEP_SIZE = 3
FUA, NO_DATA = 8, 1
WRITE_BYTES_MAX = 4 << 20


class Gone(Exception):
    """A request failed. Only the end of the server may cause that."""


@contextmanager
def gone(*errors):
    """These errors are Gone."""
    try:
        yield
    except errors as error:
        raise Gone(str(error)) from error


class NbdWire:
    """A connection. An acknowledged write is durable after a flush."""

    protocol = "nbd"
    leaves_early = False

    def __init__(self, server, disk, number):
        self.handle = nbd.NBD()
        self.handle.connect_uri(server.uri(disk.name))

    def change(self, first, count, version, durable):
        # Not nbd.Buffer: libnbd 1.14 never frees those.
        return self.send(first, sectors(version, first, count), durable)

    def send(self, first, data, durable=False):
        with gone(nbd.Error):
            return self.handle.aio_pwrite(data, first * SECTOR_BYTES, flags=nbd.CMD_FLAG_FUA if durable else 0)

    def clear(self, first, count, trim):
        send = self.handle.aio_trim if trim else self.handle.aio_zero
        with gone(nbd.Error):
            return send(count * SECTOR_BYTES, first * SECTOR_BYTES)

    def flush(self):
        with gone(nbd.Error):
            return self.handle.aio_flush()

    def read(self, page, pages):
        buffer = bytearray(pages * PAGE_BYTES)
        with gone(nbd.Error):
            return self.handle.aio_pread(buffer, page * PAGE_BYTES), buffer

    def wait(self):
        with gone(nbd.Error):
            while self.handle.aio_in_flight() > 0 and not self.handle.aio_is_dead():
                self.handle.poll(100)

    def result(self, token):
        """What was read; Gone if it failed."""
        cookie, buffer = token if isinstance(token, tuple) else (token, None)
        with gone(nbd.Error):
            if not self.handle.aio_command_completed(cookie):
                raise Gone("the connection ended")
        return buffer

    def close(self):
        try:
            self.handle.shutdown()
        except nbd.Error:
            pass


class TargetWire:
    """A session at one portal or the other, always of the same initiator port. An acknowledged write is durable."""

    protocol = "iscsi"
    leaves_early = False

    def __init__(self, server, disk, number):
        self.server, self.disk, self.number, self.portal = server, disk, number, number
        self.login()

    def login(self):
        portal = self.server.portals[self.portal % 2]
        with gone(Dropped):
            self.session = Session(portal, self.disk.name, f"client{self.number}", b"\x80write")

    def start(self, *args):
        with gone(Dropped):
            return self.session.start(*args)

    def change(self, first, count, version, durable):
        return self.send(first, bytes(sectors(version, first, count)), durable)

    def send(self, first, data, durable=False):
        return self.start(sixteen(WRITE, first, len(data) // SECTOR_BYTES, FUA if durable else 0), 0, data)

    def clear(self, first, count, trim):
        if trim:
            cdb, data = unmap([(first, count)])
            return self.start(cdb, 0, data)
        return self.start(sixteen(WRITE_SAME, first, count, NO_DATA))

    def flush(self):
        return self.start(sixteen(SYNC, 0, 0))

    def read(self, page, pages):
        return self.start(sixteen(READ, page * SECTORS, pages * SECTORS), pages * PAGE_BYTES)

    def wait(self):
        with gone(Dropped):
            self.session.wait()

    def result(self, token):
        if token not in self.session.answers:
            raise Gone("the session ended")
        status, sense, data = self.session.result(token)
        if status != GOOD:
            raise Gone(f"status {status:#x}, sense {sense}")
        return data

    def reconnect(self, close_first):
        """Cuts the session off, with requests under way, and logs in as the same initiator port at the other portal. Unless
        the old connection is closed first, the target ends its session because of the login."""
        old = self.session
        if close_first:
            old.close()
        self.portal += 1
        self.login()
        old.close()

    def close(self):
        self.session.close()


class FileWire:
    """A file of the server's mount; each request waits. An acknowledged write is durable after fsync."""

    protocol = "file"
    # An open file keeps a server that stops waiting.
    leaves_early = True

    def __init__(self, server, disk, number):
        self.sent, self.done = 0, {}
        self.aligned = mmap.mmap(-1, WRITE_BYTES_MAX)
        self.descriptor = os.open(server.mount / "volumes" / disk.name, os.O_RDWR | os.O_CLOEXEC)

    def answered(self, call, *args):
        self.sent += 1
        try:
            self.done[self.sent] = call(*args)
        except OSError as error:
            self.done[self.sent] = error
        return self.sent

    def change(self, first, count, version, durable):
        return self.send(first, sectors(version, first, count), durable)

    def send(self, first, data, durable=False):
        return self.answered(self.write, first * SECTOR_BYTES, data, os.RWF_DSYNC if durable else 0)

    def write(self, offset, data, flags):
        # From other memory the kernel sends a large write in parts that end anywhere, also within a sector.
        self.aligned[:len(data)] = data
        with memoryview(self.aligned) as whole, whole[:len(data)] as part:
            if os.pwritev(self.descriptor, [part], offset, flags) != len(data):
                raise OSError("a write of a part")

    def clear(self, first, count, trim):
        return self.answered(self.punch, first * SECTOR_BYTES, count * SECTOR_BYTES)

    def punch(self, offset, length):
        offset, length = ctypes.c_long(offset), ctypes.c_long(length)
        if LIBC.fallocate(self.descriptor, PUNCH_HOLE_KEEP_SIZE, offset, length) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")

    def flush(self):
        return self.answered(os.fsync, self.descriptor)

    def read(self, page, pages):
        return self.answered(os.pread, self.descriptor, pages * PAGE_BYTES, page * PAGE_BYTES)

    def wait(self):
        pass

    def result(self, token):
        found = self.done.pop(token)
        if isinstance(found, OSError):
            raise Gone(str(found))
        return found

    def close(self):
        try:
            os.close(self.descriptor)
        except OSError:
            pass


WIRES = {wire.protocol: wire for wire in (NbdWire, TargetWire, FileWire)}
