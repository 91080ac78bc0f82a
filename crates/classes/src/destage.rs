//! In which order dirty data is written back: from 75 % down to 25 % of the cache, the least
//! important class first (the syncer of Differentiated Storage Services).
//!
//! Checkpoints of volumes and the fast tier call this.
//! Invariant: a pure decision over counts; the caller keeps `is_running` between calls.

use crate::CLASSES;
use crate::settings::ClassSettings;
use units::IoClass;

/// When destaging begins and ends, in hundredths of the capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// Destaging begins at this much dirty data.
    pub high_hundredths: u8,
    /// Destaging ends at this much.
    pub low_hundredths: u8,
}

impl Watermarks {
    /// The published ones.
    pub const PUBLISHED: Self = Self {
        high_hundredths: 75,
        low_hundredths: 25,
    };
}

/// The next data to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Class whose oldest dirty data to write.
    pub class: IoClass,
    /// How much of it, bytes: all of the class, or as much as leads down to the low watermark.
    pub bytes: u64,
}

/// Decides what to destage next. Returns `None` if nothing has to be, and then `is_running` is
/// false.
///
/// `dirty_bytes` is by class. Of equally important classes the smaller number is first, so that the
/// same counts lead to the same order.
pub fn next(
    is_running: bool,
    dirty_bytes: &[u64; CLASSES],
    capacity_bytes: u64,
    settings: &[ClassSettings; CLASSES],
    watermarks: Watermarks,
) -> Option<Batch> {
    let dirty = dirty_bytes
        .iter()
        .fold(0u64, |all, of_class| all.saturating_add(*of_class));
    let part = |hundredths: u8| (u128::from(capacity_bytes) * u128::from(hundredths) / 100) as u64;
    let (high, low) = (
        part(watermarks.high_hundredths),
        part(watermarks.low_hundredths),
    );
    if dirty <= low || (!is_running && dirty < high) {
        return None;
    }
    let classes = (0..).zip(dirty_bytes.iter().zip(settings));
    let dirty_classes = classes.filter(|(_, (bytes, _))| **bytes > 0);
    let least = dirty_classes.min_by_key(|(_, (_, of))| std::cmp::Reverse(of.priority))?;
    let (class, (bytes, _)) = least;
    Some(Batch {
        class: IoClass(class),
        bytes: (*bytes).min(dirty - low),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Priority, Share};

    fn settings(priorities: &[(usize, Priority)]) -> [ClassSettings; CLASSES] {
        let mut settings = [ClassSettings {
            priority: Priority::Evictable(9),
            share: Share::ALL,
        }; CLASSES];
        for (class, priority) in priorities {
            settings[*class].priority = *priority;
        }
        settings
    }

    fn dirty(of: &[(usize, u64)]) -> [u64; CLASSES] {
        let mut dirty = [0; CLASSES];
        for (class, bytes) in of {
            dirty[*class] = *bytes;
        }
        dirty
    }

    #[test]
    fn it_runs_from_the_high_watermark_down_to_the_low_one() {
        let settings = settings(&[]);
        let next = |is_running, bytes| {
            let dirty = dirty(&[(1, bytes)]);
            next(is_running, &dirty, 1000, &settings, Watermarks::PUBLISHED).map(|b| b.bytes)
        };
        assert_eq!(next(false, 749), None);
        assert_eq!(next(false, 750), Some(500));
        assert_eq!(next(true, 749), Some(499));
        assert_eq!(next(true, 251), Some(1));
        assert_eq!(next(true, 250), None);
        assert_eq!(next(true, 0), None);
    }

    #[test]
    fn the_least_important_is_first_and_pinned_is_last() {
        let settings = settings(&[
            (1, Priority::Pinned),
            (2, Priority::Evictable(0)),
            (3, Priority::Evictable(255)),
        ]);
        let mut dirty = dirty(&[(1, 400), (2, 300), (3, 200), (4, 100)]);
        let mut order = Vec::new();
        while let Some(batch) = next(true, &dirty, 1000, &settings, Watermarks::PUBLISHED) {
            order.push((batch.class.0, batch.bytes));
            dirty[usize::from(batch.class.0)] -= batch.bytes;
        }
        assert_eq!(order, [(3, 200), (4, 100), (2, 300), (1, 150)]);
    }

    #[test]
    fn sizes_at_the_limit_do_not_overflow() {
        let dirty = [u64::MAX; CLASSES];
        let batch = next(
            false,
            &dirty,
            u64::MAX,
            &settings(&[]),
            Watermarks::PUBLISHED,
        );
        assert_eq!(batch.map(|b| b.class), Some(IoClass(0)));
    }
}
