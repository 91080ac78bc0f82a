"""What a disk may hold after a crash: for every page the states that writes gave it, in order, and from
which of them on it may be. A flush that returned raises that floor to what was acknowledged before it
was sent; a page never holds an older state, another page's bytes, or a mix of two states."""
import threading

from content import SECTORS, ZERO_VECTOR, Damage


class History:
    """One possible past of a disk: for each page its states and the index of the oldest that is allowed."""

    def __init__(self, states, floors=None, reasons=None):
        self.states = states
        self.floors = floors or [0] * len(states)
        self.reasons = reasons or {}

    def difference(self, vectors):
        """None when the disk that was read can be this one, or what speaks against it."""
        if len(vectors) != len(self.states):
            return f"{len(vectors)} pages instead of {len(self.states)}"
        for page, found in enumerate(vectors):
            states, floor = self.states[page], self.floors[page]
            if found != states[-1] and found not in states[floor:]:
                older = " (an older state)" if found in states[:floor] else ""
                reason = f"; durable since {self.reasons[page]}" if page in self.reasons else ""
                return f"page {page} holds {found}{older}, expected one of {states[floor:]}{reason}"
        return None


class Disk:
    """A volume, a snapshot or an image. `maybe`: a command about it was cut off; it may not be there."""

    def __init__(self, name, states, maybe=False, writable=True):
        self.name = name
        self.maybe = maybe
        self.writable = writable
        self.lock = threading.Lock()
        self.settled = False
        self.behind = 0
        # Other pasts, and another size, that a command that was cut off allows.
        self.others = []
        self.may_have_pages = None
        self.begin(states)

    def begin(self, states):
        self.states = states
        self.floors = [0] * len(states)
        # What raised the floor of a page last, for a complaint.
        self.reasons = {}
        self.acked = [len(page) - 1 for page in states]
        # Pages with acknowledged states that no flush covers.
        self.unflushed = set()
        # For pages that were looked at after a writer had been cut off: the state that was there, and the first later one.
        self.cut = {}

    def settle(self, vectors):
        """What was read after a crash is the past from here on. The complaint, if it cannot be. `behind` counts pages that
        do not hold their last state."""
        complaints = []
        histories = [History(self.states, self.floors, self.reasons), *self.others]
        if self.may_have_pages == len(vectors):
            self.grow(len(vectors))
            histories = [History(self.states, self.floors, self.reasons)]
        for history in histories:
            complaint = history.difference(vectors)
            if complaint is None:
                self.behind += sum(found != states[-1] for found, states in zip(vectors, history.states))
                self.begin([[vector] for vector in vectors])
                self.settled, self.maybe, self.others, self.may_have_pages = True, False, [], None
                return None
            complaints.append(complaint)
        return f"{self.name}: " + "; nor: ".join(complaints)

    def submit(self, first, count, version):
        """A write of sectors begins: marks for `acknowledge`."""
        return self.submit_each(first, (version,) * count)

    def submit_each(self, first, versions):
        """The same, with a version for each sector."""
        marks = []
        with self.lock:
            for page in range(first // SECTORS, (first + len(versions) - 1) // SECTORS + 1):
                start, end = max(first - page * SECTORS, 0), min(first + len(versions) - page * SECTORS, SECTORS)
                states, at = self.states[page], page * SECTORS + start - first
                states.append(states[-1][:start] + tuple(versions[at:at + end - start]) + states[-1][end:])
                marks.append((page, len(states) - 1))
        return marks

    def acknowledge(self, marks, durable, reason="a durable write"):
        """Damage when it was not there although it should have been, or came after its writer was cut off."""
        with self.lock:
            for page, index in marks:
                seen, later = self.cut.get(page, (0, 0))
                if seen < index < later:
                    raise Damage(f"page {page}: {self.states[page][index]} was acknowledged, but its writer had been cut off "
                                 f"and {self.states[page][seen]} was there")
                self.acked[page] = max(self.acked[page], index)
                if durable:
                    self.raise_floor(page, index, reason)
                else:
                    self.unflushed.add(page)

    def flush_begins(self):
        """What a flush that is sent now has to make durable."""
        with self.lock:
            marks = [(page, self.acked[page]) for page in self.unflushed]
            self.unflushed.clear()
        return marks

    def flush_failed(self, marks):
        with self.lock:
            self.unflushed.update(page for page, _ in marks)

    def flush_ended(self, marks):
        with self.lock:
            for page, index in marks:
                self.raise_floor(page, index, "a flush")

    def raise_floor(self, page, index, reason):
        if index > self.floors[page]:
            self.floors[page], self.reasons[page] = index, reason

    def observed(self, page, found):
        """A page was read, durably, after its writer had been cut off: it stays so, whatever was under way. Damage when it
        cannot be so."""
        with self.lock:
            states, floor = self.states[page], self.floors[page]
            if found not in states[floor:]:
                raise Damage(f"page {page} holds {found} after its writer was cut off, expected one of {states[floor:]}")
            seen = len(states) - 1 - states[::-1].index(found)
            self.cut[page] = (seen, len(states))
            states.append(found)
            self.acked[page] = len(states) - 1
            self.raise_floor(page, len(states) - 1, "it was read after its writer had been cut off")

    def now(self, page):
        """The state of a page that nobody is writing."""
        with self.lock:
            return self.states[page][-1]

    def moment_begins(self):
        """What a snapshot that is asked for now has to hold at least."""
        with self.lock:
            return list(self.acked)

    def moment_ends(self, begun, dead):
        """States that a snapshot may hold that was asked for at `begun` and ended just now. When the server is dead, the
        command may have opened the pool itself: then it saw what a restarted server would see."""
        with self.lock:
            lows = map(min, begun, self.floors) if dead else begun
            return [states[low:] for states, low in zip(self.states, lows)]

    def grow(self, pages):
        """Zeroes are added."""
        with self.lock:
            added = pages - len(self.states)
            self.states = self.states + [[ZERO_VECTOR] for _ in range(added)]
            self.floors = self.floors + [0] * added
            self.acked = self.acked + [0] * added
