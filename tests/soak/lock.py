"""A block that initiators take and free with COMPARE AND WRITE, and a counter that only the one who has it writes.
The block goes through turns: even ones are free, odd ones are held. Every attempt writes a version of its own."""
import threading

from content import ZERO_VECTOR, Damage
from model import Disk

LOCK_PAGE, COUNTER_PAGE, PAGES = 0, 1, 2


class Lock:
    """What the two pages may hold."""

    writable, maybe, behind = True, False, 0

    def __init__(self, name):
        self.name = name
        self.lock = threading.Lock()
        self.counter = Disk(name, [[ZERO_VECTOR]])
        self.holder = None
        self.begin(0, ZERO_VECTOR)

    def begin(self, turn, vector):
        """The block is so for sure, and nothing is under way."""
        # The turn of each attempt that has not failed, by what it wrote; and who won each turn.
        self.turns, self.winners = {vector: turn}, {turn: vector}
        self.acked = turn

    def attempt(self, turn, vector):
        with self.lock:
            self.turns[vector] = turn

    def failed(self, vector):
        """Another one was there."""
        with self.lock:
            del self.turns[vector]

    def won(self, vector, who):
        """An attempt was acknowledged. Damage if another one was, of the same turn, or if somebody has the lock."""
        with self.lock:
            turn = self.turns[vector]
            if turn in self.winners:
                raise Damage(f"turn {turn} was won by {vector[0]} and by {self.winners[turn][0]}: an update was lost")
            self.winners[turn] = vector
            self.acked = max(self.acked, turn)
            if turn % 2:
                if self.holder is not None:
                    raise Damage(f"{who} took the lock that {self.holder} has")
                self.holder = who

    def leaves(self, who):
        """Before the lock is freed."""
        with self.lock:
            if self.holder != who:
                raise Damage(f"{who} frees the lock that {self.holder} has")
            self.holder = None

    def least(self):
        """The turn that a read that is sent now has to find at least."""
        return self.acked

    def found(self, vector, least):
        """The turn of what was read. Damage if it is older than `least`, or if nobody wrote it."""
        with self.lock:
            turn = self.turns.get(vector)
        if turn is None or turn < least:
            raise Damage(f"the lock holds {vector}, of turn {turn}, after turn {least} was acknowledged")
        return turn

    def settle(self, vectors):
        """After a crash: whoever had it is dead. The complaint, if this cannot be."""
        try:
            turn = self.found(vectors[LOCK_PAGE], self.acked)
        except Damage as damage:
            return f"{self.name}: {damage}"
        self.begin(turn, vectors[LOCK_PAGE])
        self.holder = None
        return self.counter.settle([vectors[COUNTER_PAGE]])
