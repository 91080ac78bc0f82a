"""The checks of this directory can fail. Run with python3 -m unittest."""
import unittest

from content import SECTOR_BYTES, ZERO_VECTOR, Damage, foreign, sectors, vector
from lock import Lock
from model import Disk, History
from watch import MIB, Watch, allowed_beside, planned_bytes

OLD, NEW = 100, 101


def written(disk, version, first=0, count=8, durable=False):
    disk.acknowledge(disk.submit(first, count, version), durable)


def flush(disk):
    disk.flush_ended(disk.flush_begins())


class Content(unittest.TestCase):
    def test_what_was_written_is_recognised(self):
        for version in (5, OLD, NEW):
            self.assertEqual(vector(bytes(sectors(version, 16, 8)), 2), (version,) * 8)
        self.assertEqual(vector(bytes(4096), 2), ZERO_VECTOR)

    def test_torn_and_foreign_sectors_are_damage(self):
        old, new = bytes(sectors(OLD, 16, 8)), bytes(sectors(NEW, 16, 8))
        for bad in (new[:256] + old[256:], old[:4095] + b"x", b"\1" + bytes(4095), bytes(100) + old[100:]):
            self.assertRaises(Damage, vector, bad, 2)
        self.assertRaises(Damage, vector, old, 3)

    def test_foreign_bytes_are_recognised_wherever_they_stand(self):
        data = bytes([7]) * SECTOR_BYTES
        version = foreign(data)
        self.assertEqual(vector(data * 8, 3), (version,) * 8)
        self.assertRaises(Damage, vector, data * 7 + bytes([8]) * SECTOR_BYTES, 3)

    def test_a_mix_of_two_writes_is_seen(self):
        old, new = bytes(sectors(OLD, 0, 8)), bytes(sectors(NEW, 0, 8))
        disk = Disk("d", [[ZERO_VECTOR]])
        written(disk, OLD)
        written(disk, NEW)
        self.assertIn("page 0 holds", disk.settle([vector(old[:3 * SECTOR_BYTES] + new[3 * SECTOR_BYTES:], 0)]))


class Model(unittest.TestCase):
    def setUp(self):
        self.disk = Disk("d", [[ZERO_VECTOR], [ZERO_VECTOR]])

    def settles(self, first, second=ZERO_VECTOR):
        return self.disk.settle([first, second]) is None

    def test_what_was_not_flushed_may_be_lost_or_not(self):
        written(self.disk, OLD)
        self.assertTrue(self.settles((OLD,) * 8))
        written(self.disk, NEW)
        self.assertTrue(self.settles((OLD,) * 8))

    def test_what_was_flushed_may_not_be_lost(self):
        written(self.disk, OLD)
        flush(self.disk)
        written(self.disk, NEW)
        self.assertFalse(self.settles(ZERO_VECTOR))
        self.assertTrue(self.settles((OLD,) * 8))

    def test_a_flush_covers_what_was_acknowledged_before_it(self):
        marks = self.disk.submit(0, 8, OLD)
        begun = self.disk.flush_begins()
        self.disk.acknowledge(marks, False)
        self.disk.flush_ended(begun)
        self.assertTrue(self.settles(ZERO_VECTOR))

    def test_a_failed_flush_leaves_the_work_to_the_next(self):
        written(self.disk, OLD)
        self.disk.flush_failed(self.disk.flush_begins())
        flush(self.disk)
        self.assertFalse(self.settles(ZERO_VECTOR))

    def test_durable_writes_need_no_flush(self):
        written(self.disk, OLD, durable=True)
        self.assertFalse(self.settles(ZERO_VECTOR))

    def test_parts_of_a_page_come_one_after_the_other(self):
        written(self.disk, OLD, 0, 3)
        written(self.disk, NEW, 6, 4)
        self.assertFalse(self.settles((0,) * 6 + (NEW,) * 2))
        self.assertTrue(self.settles((OLD,) * 3 + (0,) * 3 + (NEW,) * 2))

    def test_what_was_found_stays(self):
        written(self.disk, OLD)
        self.assertTrue(self.settles((OLD,) * 8))
        self.assertFalse(self.settles(ZERO_VECTOR))

    def test_a_snapshot_holds_what_was_acknowledged(self):
        written(self.disk, OLD)
        begun = self.disk.moment_begins()
        written(self.disk, NEW)
        snapshot = Disk("d@s", self.disk.moment_ends(begun, False))
        self.assertIsNotNone(snapshot.settle([ZERO_VECTOR, ZERO_VECTOR]))
        self.assertIsNone(snapshot.settle([(NEW,) * 8, ZERO_VECTOR]))

    def test_a_snapshot_after_the_crash_holds_what_was_flushed(self):
        written(self.disk, OLD)
        flush(self.disk)
        written(self.disk, NEW)
        begun = self.disk.moment_begins()
        for states, possible in (((OLD,) * 8, True), (ZERO_VECTOR, False)):
            snapshot = Disk("d@s", self.disk.moment_ends(begun, True))
            self.assertEqual(snapshot.settle([states, ZERO_VECTOR]) is None, possible)

    def test_a_command_that_was_cut_off_happened_or_not(self):
        written(self.disk, OLD)
        self.disk.others.append(History([[(NEW,) * 8], [(NEW,) * 8]]))
        self.assertFalse(self.settles((NEW,) * 8))
        self.assertTrue(self.settles((NEW,) * 8, (NEW,) * 8))

    def test_sizes_are_checked(self):
        self.assertIn("3 pages", self.disk.settle([ZERO_VECTOR] * 3))
        self.disk.may_have_pages = 3
        self.assertIsNone(self.disk.settle([ZERO_VECTOR] * 3))


class CutOff(unittest.TestCase):
    """A writer whose connection was cut off, or who was fenced, with a write under way."""

    def setUp(self):
        self.disk = Disk("d", [[ZERO_VECTOR]])
        written(self.disk, OLD, durable=True)
        self.marks = self.disk.submit(0, 8, NEW)

    def test_what_was_there_stays(self):
        for found, other in (((OLD,) * 8, (NEW,) * 8), ((NEW,) * 8, (OLD,) * 8)):
            self.setUp()
            self.disk.observed(0, found)
            self.assertEqual(self.disk.now(0), found)
            # A fenced write that lands, or one that was there and is lost.
            self.assertIn("page 0 holds", self.disk.settle([other]))
            self.assertIsNone(self.disk.settle([found]))

    def test_an_acknowledged_write_was_there(self):
        self.disk.observed(0, (OLD,) * 8)
        self.assertRaises(Damage, self.disk.acknowledge, self.marks, True)
        self.setUp()
        self.disk.observed(0, (NEW,) * 8)
        self.disk.acknowledge(self.marks, True)

    def test_an_older_state_is_damage(self):
        self.assertRaises(Damage, self.disk.observed, 0, ZERO_VECTOR)

    def test_later_writes_count(self):
        self.disk.observed(0, (OLD,) * 8)
        written(self.disk, NEW + 1, durable=True)
        self.assertIsNotNone(self.disk.settle([(OLD,) * 8]))
        self.assertIsNone(self.disk.settle([(NEW + 1,) * 8]))


class Locks(unittest.TestCase):
    FREE, ONE, TWO = ZERO_VECTOR, (OLD,) * 8, (NEW,) * 8

    def setUp(self):
        self.lock = Lock("l")

    def taken(self, vector, who="one"):
        self.lock.attempt(1, vector)
        self.lock.won(vector, who)

    def settles(self, held, counter=ZERO_VECTOR):
        return self.lock.settle([held, counter]) is None

    def test_two_winners_of_a_turn_are_a_lost_update(self):
        self.taken(self.ONE)
        self.lock.attempt(1, self.TWO)
        with self.assertRaisesRegex(Damage, "an update was lost"):
            self.lock.won(self.TWO, "two")

    def test_one_has_the_lock_at_a_time(self):
        self.taken(self.ONE)
        self.assertRaises(Damage, self.lock.leaves, "two")
        self.lock.attempt(3, self.TWO)
        with self.assertRaisesRegex(Damage, "two took the lock that one has"):
            self.lock.won(self.TWO, "two")

    def test_a_read_is_not_older_than_what_was_acknowledged(self):
        self.taken(self.ONE)
        self.assertRaises(Damage, self.lock.found, self.FREE, self.lock.least())
        self.assertEqual(self.lock.found(self.ONE, self.lock.least()), 1)

    def test_after_a_crash_it_is_old_or_new(self):
        self.lock.attempt(1, self.ONE)
        self.assertTrue(self.settles(self.FREE))
        self.lock.attempt(1, self.ONE)
        self.assertFalse(self.settles(self.TWO))
        self.assertFalse(self.settles(self.ONE[:4] + self.FREE[4:]))
        self.assertTrue(self.settles(self.ONE))

    def test_a_refused_attempt_is_nowhere(self):
        self.lock.attempt(1, self.ONE)
        self.lock.failed(self.ONE)
        self.assertFalse(self.settles(self.ONE))

    def test_an_acknowledged_turn_is_not_lost(self):
        self.taken(self.ONE)
        self.assertFalse(self.settles(self.FREE))

    def test_an_acknowledged_update_of_the_counter_is_not_lost(self):
        written(self.lock.counter, OLD, durable=True)
        self.assertFalse(self.settles(self.FREE, ZERO_VECTOR))
        self.assertTrue(self.settles(self.FREE, (OLD,) * 8))


class Memory(unittest.TestCase):
    def test_more_than_the_plan_and_what_is_beside_it_is_reported(self):
        watch = Watch()
        watch.connected(3)
        begun = watch.sent(5 * MIB)
        watch.answered("nbd", begun, 5 * MIB, True)
        watch.connected(-3)
        may_be = 64 * MIB + MIB + allowed_beside(64 * MIB, 3, 5 * MIB)
        self.assertIsNone(watch.memory(64 * MIB, may_be, MIB))
        self.assertIn("more than its plan of 64 MiB", watch.memory(64 * MIB, may_be + 1, MIB))

    def test_the_plan_is_the_sum_of_its_shares(self):
        status = '{"other":1}\n{"memory_plan":{"shares":[{"planned_bytes":3},{"planned_bytes":4,"used_bytes":1}]}}'
        self.assertEqual(planned_bytes(status), 7)


if __name__ == "__main__":
    unittest.main()
