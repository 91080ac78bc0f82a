"""The checks of this directory can fail. Run with python3 -m unittest."""
import unittest

from content import SECTOR_BYTES, ZERO_VECTOR, Damage, sectors, vector
from model import Disk, History

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


if __name__ == "__main__":
    unittest.main()
