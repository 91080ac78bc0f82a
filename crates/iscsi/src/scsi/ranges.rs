//! Locks ranges of a unit's bytes: changes share them, commands that compare before they write have
//! them alone. Jobs call this.
//!
//! Invariant: two that overlap, one of them alone, are never held together. They are granted in the
//! order in which they were asked for, and one that overlaps no other never waits. A thread holds
//! one range at a time, so none waits for itself.

use parking_lot::{Condvar, Mutex};
use std::ops::Range;

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    bytes: Range<u64>,
    alone: bool,
}

impl Entry {
    fn excludes(&self, other: &Self) -> bool {
        (self.alone || other.alone)
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

#[derive(Default)]
struct RangesState {
    next: u64,
    /// RangeGuard, or waited for, in the order of arrival.
    entries: Vec<Entry>,
}

impl RangesState {
    fn may_have(&self, wanted: &Entry) -> bool {
        let mut older = self.entries.iter().take_while(|entry| entry.id < wanted.id);
        !older.any(|entry| entry.excludes(wanted))
    }

    fn enter(&mut self, bytes: Range<u64>, alone: bool) -> Entry {
        let id = self.next;
        self.next += 1;
        let entry = Entry { id, bytes, alone };
        self.entries.push(entry.clone());
        entry
    }
}

/// The ranges of one unit.
#[derive(Default)]
pub(super) struct Ranges {
    state: Mutex<RangesState>,
    left: Condvar,
}

/// A range that is held until this is dropped.
pub(super) struct RangeGuard<'a>(&'a Ranges, u64);

impl Ranges {
    /// Waits until no other has a part of the range alone.
    pub(super) fn shared(&self, bytes: Range<u64>) -> RangeGuard<'_> {
        self.wait(bytes, false)
    }

    /// Waits until no other has a part of the range.
    pub(super) fn alone(&self, bytes: Range<u64>) -> RangeGuard<'_> {
        self.wait(bytes, true)
    }

    /// Returns the range if it need not be waited for.
    pub(super) fn try_shared(&self, bytes: Range<u64>) -> Option<RangeGuard<'_>> {
        let mut state = self.state.lock();
        let entry = state.enter(bytes, false);
        if state.may_have(&entry) {
            return Some(RangeGuard(self, entry.id));
        }
        state.entries.pop();
        None
    }

    fn wait(&self, bytes: Range<u64>, alone: bool) -> RangeGuard<'_> {
        let mut state = self.state.lock();
        let entry = state.enter(bytes, alone);
        while !state.may_have(&entry) {
            self.left.wait(&mut state);
        }
        RangeGuard(self, entry.id)
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let Self(ranges, id) = self;
        ranges.state.lock().entries.retain(|entry| entry.id != *id);
        ranges.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;

    fn waiting(ranges: &Ranges) -> usize {
        ranges.state.lock().entries.len()
    }

    #[test]
    fn only_what_overlaps_waits_and_in_order() {
        let ranges = Ranges::default();
        let written = ranges.shared(0..10);
        let also = ranges.shared(5..15);
        let elsewhere = ranges.alone(20..30);
        assert!(ranges.try_shared(0..20).is_some() && ranges.try_shared(25..26).is_none());
        assert_eq!(waiting(&ranges), 3, "what was tried is gone");
        let has = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _alone = ranges.alone(8..12);
                has.store(true, SeqCst);
            });
            while waiting(&ranges) < 4 {
                thread::yield_now();
            }
            // Later ones do not pass it, and those elsewhere do.
            assert!(ranges.try_shared(11..12).is_none() && ranges.try_shared(12..20).is_some());
            drop(written);
            assert!(!has.load(SeqCst));
            drop(also);
        });
        assert!(has.load(SeqCst));
        drop(elsewhere);
        assert_eq!(waiting(&ranges), 0);
    }
}
