"""Clients that write: each owns pages of its own of a volume that it shares with others, sends batches of
requests over its wires, and tells the model what was sent and what was acknowledged."""
import itertools
import random
import threading

import nbd
from content import COMMON_END, PAGE_BYTES, SECTOR_BYTES, SECTORS, Damage, vector
from wires import Gone

VERSIONS = itertools.count(COMMON_END)
# Pages that follow each other and have one owner, in the two halves of a volume: less than a large
# chunk, so that chunks have several owners; and enough for writes that pass the journal by.
SMALL_GROUP, LARGE_GROUP = 4, 512


class Player(threading.Thread):
    """Does something to a server until it is killed. `failure` says what should not have been."""

    # Ends before a server that is asked to end: its files would keep it.
    leaves_early = False

    def __init__(self, name, seed, killing, watch):
        super().__init__(daemon=True, name=name)
        self.what = name
        self.random = random.Random(seed)
        self.killing, self.watch = killing, watch
        self.failure = None

    def run(self):
        try:
            while not (self.leaves_early and self.killing.is_set()):
                self.play()
        except Gone as error:
            # Before that nothing may fail.
            if not self.killing.is_set():
                self.failure = f"{self.what}: {error}"
        except Damage as damage:
            self.failure = f"{self.what}: {damage}"
        except Exception as mistake:  # A thread must not end in silence.
            self.failure = mistake
        finally:
            self.leave()


class Client(Player):
    """Changes go over the first of its wires, reads over any."""

    def __init__(self, disk, number, clients, wires, seed, killing, watch):
        self.wires = wires
        super().__init__(f"{disk.name} over {wires[0].protocol}", seed, killing, watch)
        self.disk, self.number, self.clients = disk, number, clients
        self.leaves_early = any(wire.leaves_early for wire in wires)
        self.wire = wires[0]
        self.pages = len(disk.states)
        watch.connected(len(wires))

    def leave(self):
        self.watch.connected(-len(self.wires))
        for wire in self.wires:
            wire.close()

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

    def play(self):
        """Some requests at once; no two touch the same page."""
        ranges, taken = [], set()
        for _ in range(self.random.choice([1, 1, 4, 16])):
            first, count = self.own_range()
            pages = range(first // SECTORS, (first + count - 1) // SECTORS + 1)
            if taken.isdisjoint(pages):
                taken.update(pages)
                ranges.append((first, count))
        cut_off = self.wire.protocol == "iscsi" and self.random.random() < 0.02
        self.together([lambda first=first, count=count: self.send(first, count) for first, count in ranges],
                      sum(count for _, count in ranges) * SECTOR_BYTES, taken if cut_off else None)

    def together(self, requests, length, cut_off=None):
        """Sends all, and takes all answers; or cuts the connection off, which had to do with these pages."""
        begun, failure, under_way = self.watch.sent(length), None, []
        try:
            for request in requests:
                under_way.append(request())
            if cut_off is not None:
                self.reconnect(under_way, cut_off)
                return
            for wire in self.wires:
                wire.wait()
            for wire, token, ended, failed in under_way:
                try:
                    ended(wire.result(token))
                except Gone as error:
                    failed()
                    failure = error
            if failure is not None:
                raise failure
        except Gone as error:
            failure = error
            raise
        finally:
            self.watch.answered(self.wire.protocol, begun, length, failure is None and cut_off is None)

    def reconnect(self, under_way, pages):
        """After a login as the same initiator port the requests of the old connection are over: whatever is there stays."""
        for wire, _, _, failed in under_way:
            wire.wait() if wire is not self.wire else failed()
        # The target may have both for a moment.
        self.watch.connected()
        self.wire.reconnect(self.random.random() < 0.5)
        self.watch.connected(-1)
        self.together([self.send_flush], 0)
        for page in sorted(pages):
            token = self.wire.read(page, 1)
            self.wire.wait()
            self.disk.observed(page, vector(bytes(self.wire.result(token)), page))
        for wire, token, _, _ in under_way:
            if wire is not self.wire:
                wire.result(token)
        self.watch.count("iscsi reconnections")

    def send(self, first, count):
        """One request: its wire, its token, and what an answer and a failure are for the model."""
        kind = self.random.choices(["write", "durable", "zero", "trim", "read", "flush"], [60, 6, 6, 6, 12, 10])[0]
        if kind == "read":
            return self.send_read(first, count)
        if kind == "flush":
            return self.send_flush()
        self.watch.count(f"{self.wire.protocol} writes")
        durable = kind == "durable"
        if kind in ("write", "durable"):
            common = self.random.random() < 0.15
            version = self.random.randrange(1, COMMON_END) if common else next(VERSIONS)
            marks = self.disk.submit(first, count, version)
            token = self.wire.change(first, count, version, durable)
        else:
            marks = self.disk.submit(first, count, 0)
            token = self.wire.clear(first, count, kind == "trim")
        durable = durable or self.wire.protocol == "iscsi"
        asked = " that asked for it" if kind == "durable" else ""
        reason = f"an acknowledged write over {self.wire.protocol}{asked}"
        return self.wire, token, lambda _: self.disk.acknowledge(marks, durable, reason), lambda: None

    def send_flush(self):
        marks = self.disk.flush_begins()
        self.watch.count("flushes")
        ended, failed = lambda _: self.disk.flush_ended(marks), lambda: self.disk.flush_failed(marks)
        return self.wire, self.wire.flush(), ended, failed

    def send_read(self, first, count):
        """Whole pages; they hold what was written last, durable or not, whichever way it went."""
        page, pages = first // SECTORS, (count + SECTORS - 1) // SECTORS
        pages = min(pages, 16)
        expected = [self.disk.now(number) for number in range(page, page + pages)]
        wire = self.random.choice(self.wires)

        def ended(read):
            for number, wanted in enumerate(expected):
                found = vector(bytes(read[number * PAGE_BYTES:(number + 1) * PAGE_BYTES]), page + number)
                if found != wanted:
                    raise Damage(f"page {page + number} holds {found} over {wire.protocol}, was just written as {wanted}")

        return wire, wire.read(page, pages), ended, lambda: None


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
