"""Initiators that share a volume as a cluster does: over two portals, with a lock on the disk, and with reservations that
fence a writer."""
from content import PAGE_BYTES, SECTORS, Damage, sectors, vector
from load import VERSIONS, Player
from lock import COUNTER_PAGE, LOCK_PAGE
from target import (CHECK_CONDITION, CONFLICT, GOOD, MISCOMPARE, READ, SYNC, WRITE, Dropped, Session, compare_and_write,
                    sixteen)
from wires import gone

# Of persistent reservations: actions, and the type that only registered initiators may write.
RESERVE, CLEAR, PREEMPT_AND_ABORT, REGISTER = 1, 3, 5, 6
REGISTRANTS_WRITE = 5
HOLDER_KEY, WRITER_KEY = 0xA, 0xB


def page_of(version, page):
    return bytes(sectors(version, page * SECTORS, SECTORS))


def read_page(session, page):
    return vector(session.must(sixteen(READ, page * SECTORS, SECTORS), PAGE_BYTES), page)


class Node(Player):
    """A player whose connections are sessions, which end all at once."""

    def __init__(self, name, seed, killing, watch):
        super().__init__(name, seed, killing, watch)
        self.sessions = []

    def login(self, server, volume, portal, name):
        # Another port at each portal: a login of the same one would end the session at the other.
        session = Session(server.portals[portal], volume, name, b"\x80node" + bytes([portal]))
        self.sessions.append(session)
        self.watch.connected()
        return session

    def play(self):
        begun, good = self.watch.sent(PAGE_BYTES), False
        try:
            with gone(Dropped):
                self.turn()
            good = True
        finally:
            self.watch.answered(self.protocol, begun, PAGE_BYTES, good)

    def leave(self):
        self.watch.connected(-len(self.sessions))
        for session in self.sessions:
            session.close()


class LockTaker(Node):
    """Takes the lock, adds to the counter, and frees the lock, each time over another portal."""

    protocol = "compare and write"

    def __init__(self, server, lock, number, seed, killing, watch):
        super().__init__(f"lock taker {number}", seed, killing, watch)
        self.lock, self.turns = lock, number
        self.portals = [self.login(server, lock.name, portal, f"taker{number}") for portal in (0, 1)]

    def turn(self):
        self.turns += 1
        session = self.portals[self.turns % 2]
        least = self.lock.least()
        found = read_page(session, LOCK_PAGE)
        turn = self.lock.found(found, least)
        if turn % 2:
            # Held by somebody who lives.
            return
        mine = self.write(session, turn, found)
        if mine is None:
            return
        # The write and the release may take the other way.
        session = self.random.choice(self.portals)
        self.add(session)
        self.lock.leaves(self.what)
        if self.write(self.random.choice(self.portals), turn + 1, mine) is None:
            raise Damage("the lock was not what its holder had written")
        self.watch.count("lock turns")

    def write(self, session, turn, old):
        """COMPARE AND WRITE of the next turn: what was written, or None when another was there."""
        version = next(VERSIONS)
        new = (version,) * SECTORS
        data = page_bytes(old, LOCK_PAGE) + page_of(version, LOCK_PAGE)
        self.lock.attempt(turn + 1, new)
        status, sense, _ = session.run(compare_and_write(LOCK_PAGE * SECTORS, SECTORS), data=data)
        if status == GOOD:
            self.lock.won(new, self.what)
            return new
        if status == CHECK_CONDITION and sense and sense[0] == MISCOMPARE:
            self.lock.failed(new)
            self.watch.count("compare and write refused")
            return None
        raise Dropped(f"COMPARE AND WRITE ended with status {status:#x}, sense {sense}")

    def add(self, session):
        counter, version = self.lock.counter, next(VERSIONS)
        found = read_page(session, COUNTER_PAGE)
        if found != counter.now(0):
            raise Damage(f"the counter holds {found}, and {counter.now(0)} was written last: an update was lost")
        marks = counter.submit(0, SECTORS, version)
        session.must(sixteen(WRITE, COUNTER_PAGE * SECTORS, SECTORS), data=page_of(version, COUNTER_PAGE))
        counter.acknowledge(marks, True)


def page_bytes(states, page):
    return b"".join(bytes(sectors(version, page * SECTORS + at, 1)) for at, version in enumerate(states))


def free_held(server, lock):
    """Frees the lock of one who is dead. Nobody else is there."""
    session = Session(server.portals[0], lock.name, "freer", b"\x80freer")
    try:
        found = read_page(session, LOCK_PAGE)
        turn = lock.found(found, lock.least())
        if turn % 2:
            version = next(VERSIONS)
            lock.attempt(turn + 1, (version,) * SECTORS)
            session.must(compare_and_write(LOCK_PAGE * SECTORS, SECTORS),
                         data=page_bytes(found, LOCK_PAGE) + page_of(version, LOCK_PAGE))
            lock.won((version,) * SECTORS, "freer")
    finally:
        session.close()


class Fencer(Node):
    """A writer at one portal, and a holder at the other that fences it while it writes."""

    protocol = "reservations"

    def __init__(self, server, disk, seed, killing, watch):
        super().__init__(f"fencer of {disk.name}", seed, killing, watch)
        self.disk = disk
        # Marks of writes without an answer, by tag.
        self.under_way = {}
        self.holder, self.writer = (self.login(server, disk.name, portal, name) for portal, name in enumerate(("holder", "writer")))

    def turn(self):
        expect(self.holder.reserve(REGISTER, 0, 0, HOLDER_KEY), GOOD)
        expect(self.writer.reserve(REGISTER, 0, 0, WRITER_KEY), GOOD)
        expect(self.holder.reserve(RESERVE, REGISTRANTS_WRITE, HOLDER_KEY), GOOD)
        pages = self.random.sample(range(len(self.disk.states)), self.random.randint(1, 12))
        # Some have data that the target asks for, which come when the writer is fenced.
        self.writer.immediate_bytes = self.random.choice([0, PAGE_BYTES])
        under_way = dict(self.begin(page, next(VERSIONS)) for page in pages)
        expect(self.holder.reserve(PREEMPT_AND_ABORT, REGISTRANTS_WRITE, HOLDER_KEY, WRITER_KEY), GOOD)
        self.holder.must(sixteen(SYNC, 0, 0))
        for page in pages:
            self.disk.observed(page, read_page(self.holder, page))
        self.under_way.update(under_way)
        self.fenced_answers()
        self.late_writes(pages)
        expect(self.holder.reserve(CLEAR, 0, HOLDER_KEY), GOOD)
        self.watch.count("writers fenced")

    def begin(self, page, version):
        marks = self.disk.submit(page * SECTORS, SECTORS, version)
        cdb = sixteen(WRITE, page * SECTORS, SECTORS)
        return self.writer.start(cdb, 0, page_of(version, page), False), marks

    def fenced_answers(self):
        """Tasks that were aborted have no answer, even if their data come now. Others may be answered later than the next
        command, but what they wrote must have been there when the writer was fenced."""
        while self.writer.run(bytes(6), retry=False)[0] != GOOD:
            pass
        for tag in [tag for tag in self.under_way if tag in self.writer.answers]:
            marks, (status, _, _) = self.under_way.pop(tag), self.writer.result(tag)
            if status == GOOD:
                self.disk.acknowledge(marks, True)

    def late_writes(self, pages):
        """The model does not learn of them: they must not land."""
        for page in pages[:3]:
            status, sense, _ = self.writer.run(sixteen(WRITE, page * SECTORS, SECTORS), data=page_of(next(VERSIONS), page))
            if status != CONFLICT:
                raise Damage(f"a fenced writer's write of page {page} ended with status {status:#x}, sense {sense}")
        for page in pages:
            found = read_page(self.holder, page)
            if found != self.disk.now(page):
                raise Damage(f"page {page} holds {found} after its writer was fenced, and was {self.disk.now(page)} then")


def expect(status, wanted):
    if status != wanted:
        raise Dropped(f"a reservation ended with status {status:#x}")
