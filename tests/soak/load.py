"""Clients that write: each owns pages of its own of a volume that it shares with others, sends batches of
requests, and tells the model what was sent and what was acknowledged."""
import itertools
import random
import threading

import nbd
from content import COMMON_END, PAGE_BYTES, SECTOR_BYTES, SECTORS, Damage, sectors, vector

VERSIONS = itertools.count(COMMON_END)
# Pages that follow each other and have one owner, in the two halves of a volume: less than a large
# chunk, so that chunks have several owners; and enough for writes that pass the journal by.
SMALL_GROUP, LARGE_GROUP = 4, 512


class Client(threading.Thread):
    """One connection. `failure` says what should not have been."""

    def __init__(self, disk, number, clients, uri, seed, killing):
        super().__init__(daemon=True)
        self.disk, self.number, self.clients = disk, number, clients
        self.random = random.Random(seed)
        self.killing = killing
        self.stopping = False
        self.failure = None
        self.writes = self.flushes = 0
        self.pages = len(disk.states)
        self.handle = nbd.NBD()
        self.handle.connect_uri(uri)

    def run(self):
        try:
            while not self.stopping:
                self.batch()
            self.handle.shutdown()
        except nbd.Error as error:
            # Before that nothing may fail.
            if not self.killing.is_set():
                self.failure = f"{self.disk.name}: {error}"
        except Damage as damage:
            self.failure = f"{self.disk.name}: {damage}"
        except Exception as mistake:  # A thread must not end in silence.
            self.failure = mistake

    def own_range(self):
        """Sectors (first, count) of pages that are this client's."""
        half = self.pages // 2 // LARGE_GROUP * LARGE_GROUP
        large = self.random.random() < 0.15 and half + LARGE_GROUP * self.clients <= self.pages
        start, end, group = (half, self.pages, LARGE_GROUP) if large else (0, half or self.pages, SMALL_GROUP)
        groups = (end - start) // group
        own = (groups - self.number + self.clients - 1) // self.clients
        first = start + (self.random.randrange(own) * self.clients + self.number) * group
        if large:
            length = self.random.choice([16, 64, 256, LARGE_GROUP])
            first += self.random.randrange(LARGE_GROUP - length + 1)
            return first * SECTORS, length * SECTORS
        if self.random.random() < 0.2:
            begin = self.random.randrange(group * SECTORS)
            return first * SECTORS + begin, self.random.randint(1, group * SECTORS - begin)
        length = self.random.randint(1, group)
        first += self.random.randrange(group - length + 1)
        return first * SECTORS, length * SECTORS

    def batch(self):
        """Some requests at once; no two touch the same page."""
        taken, under_way = set(), []
        for _ in range(self.random.choice([1, 1, 4, 16])):
            first, count = self.own_range()
            pages = range(first // SECTORS, (first + count - 1) // SECTORS + 1)
            if taken.isdisjoint(pages):
                taken.update(pages)
                under_way.append(self.send(first, count))
        while self.handle.aio_in_flight() > 0 and not self.handle.aio_is_dead():
            self.handle.poll(100)
        failure = None
        for cookie, ended in under_way:
            try:
                if not self.handle.aio_command_completed(cookie):
                    raise nbd.Error("the connection ended", None)
                ended(True)
            except nbd.Error as error:
                ended(False)
                failure = error
        if failure is not None:
            raise failure

    def send(self, first, count):
        """One request; what it is for the model when it is answered."""
        offset, length = first * SECTOR_BYTES, count * SECTOR_BYTES
        kind = self.random.choices(["write", "durable", "zero", "trim", "read", "flush"], [60, 6, 6, 6, 12, 10])[0]
        if kind == "read":
            return self.send_read(first, count)
        if kind == "flush":
            marks = self.disk.flush_begins()
            self.flushes += 1
            ended = lambda good: self.disk.flush_ended(marks) if good else self.disk.flush_failed(marks)
            return self.handle.aio_flush(), ended
        durable = kind == "durable"
        if kind in ("write", "durable"):
            common = self.random.random() < 0.15
            version = self.random.randrange(1, COMMON_END) if common else next(VERSIONS)
            # Not nbd.Buffer: libnbd 1.14 never frees those.
            data = sectors(version, first, count)
            marks = self.disk.submit(first, count, version)
            flags = nbd.CMD_FLAG_FUA if durable else 0
            cookie = self.handle.aio_pwrite(data, offset, flags=flags)
        else:
            marks = self.disk.submit(first, count, 0)
            send = self.handle.aio_zero if kind == "zero" else self.handle.aio_trim
            cookie = send(length, offset)
        self.writes += 1
        return cookie, lambda good: self.disk.acknowledge(marks, durable) if good else None

    def send_read(self, first, count):
        """Whole pages; they hold what was written last, durable or not."""
        page, pages = first // SECTORS, (count + SECTORS - 1) // SECTORS
        pages = min(pages, 16)
        expected = [self.disk.now(number) for number in range(page, page + pages)]
        buffer = bytearray(pages * PAGE_BYTES)

        def ended(good):
            if not good:
                return
            read = bytes(buffer)
            for number, wanted in enumerate(expected):
                found = vector(read[number * PAGE_BYTES:(number + 1) * PAGE_BYTES], page + number)
                if found != wanted:
                    raise Damage(f"page {page + number} holds {found}, was just written as {wanted}")

        return self.handle.aio_pread(buffer, page * PAGE_BYTES), ended


def read_all(uri):
    """The vectors of all pages of an export."""
    handle = nbd.NBD()
    handle.connect_uri(uri)
    size, vectors = handle.get_size(), []
    for offset in range(0, size, 1 << 20):
        data = bytes(handle.pread(min(1 << 20, size - offset), offset))
        for at in range(0, len(data), PAGE_BYTES):
            vectors.append(vector(data[at:at + PAGE_BYTES], (offset + at) // PAGE_BYTES))
    handle.shutdown()
    return vectors
