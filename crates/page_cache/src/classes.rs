//! Settings of the classes that are in force, and the memory that each class takes (Differentiated
//! Storage Services, SOSP'11). `cache` chooses by it which classes evict; both sides count here.
//!
//! Invariant: settings may change at any moment, and no lock is needed to read them. A choice looks
//! at each class once. While no class differs from the others, nothing here is asked.

use crate::policy::ClassSet;
use io_class::{CLASSES, ClassSettings, Priority, Share};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use units::IoClass;

/// Ranks: 0 is pinned, then priorities from 0 to 255, then classes that are not to be kept. The
/// highest rank leaves first.
const PINNED: u16 = 0;
const BYPASSING: u16 = 257;
/// Added to the rank of a class above its share.
const OVER: u16 = 1000;

/// Cause of an eviction. It decides which classes may evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Bytes of this class come.
    For(IoClass),
    /// The budget is exceeded: anything may have to leave.
    Budget,
}

struct OfClass {
    rank: AtomicU16,
    limit_bytes: AtomicU64,
    clean_bytes: AtomicU64,
    dirty_bytes: AtomicU64,
}

/// Settings and sizes of all classes.
pub(crate) struct Classes {
    /// False while all classes are equal and may fill the cache.
    are_distinct: AtomicBool,
    bytes_max: u64,
    of: [OfClass; CLASSES],
}

/// Returns a class that exists: other numbers are class 0.
pub(crate) fn known(class: IoClass) -> IoClass {
    match usize::from(class.0) < CLASSES {
        true => class,
        false => IoClass(0),
    }
}

fn rank_of(settings: &ClassSettings) -> u16 {
    match (settings.share, settings.priority) {
        (Share::NONE, _) => BYPASSING,
        (_, Priority::Pinned) => PINNED,
        (_, Priority::Evictable(priority)) => u16::from(priority) + 1,
    }
}

impl Classes {
    /// Makes equal classes for a cache of that size.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            are_distinct: AtomicBool::new(false),
            bytes_max,
            of: std::array::from_fn(|_| OfClass {
                rank: AtomicU16::new(1),
                limit_bytes: AtomicU64::new(u64::MAX),
                clean_bytes: AtomicU64::new(0),
                dirty_bytes: AtomicU64::new(0),
            }),
        }
    }

    fn of(&self, class: IoClass) -> &OfClass {
        // `known` has made it smaller than their number.
        &self.of[usize::from(class.0) % CLASSES]
    }

    /// Changes the settings. Returns true if classes differ now.
    pub fn set(&self, settings: &[ClassSettings; CLASSES]) -> bool {
        for (of, settings) in self.of.iter().zip(settings) {
            // A share above 0 is a chunk at least: 1 % of a tiny cache is not "do not keep".
            let share_bytes = settings.share.of(self.bytes_max);
            let limit_bytes = match settings.share {
                Share::NONE => 0,
                Share::ALL => u64::MAX,
                _ => share_bytes.max(crate::CHUNK_BYTES_MAX as u64),
            };
            of.rank.store(rank_of(settings), Relaxed);
            of.limit_bytes.store(limit_bytes, Relaxed);
        }
        let first = settings.first();
        let are_equal = settings.iter().all(|of| Some(of) == first);
        let are_free = first.is_some_and(|of| of.priority != Priority::Pinned)
            && first.is_some_and(|of| of.share == Share::ALL);
        let are_distinct = !(are_equal && are_free);
        self.are_distinct.store(are_distinct, Relaxed);
        are_distinct
    }

    pub fn are_distinct(&self) -> bool {
        self.are_distinct.load(Relaxed)
    }

    /// Returns true if chunks of the class are kept.
    pub fn keeps(&self, class: IoClass) -> bool {
        self.of(class).rank.load(Relaxed) != BYPASSING
    }

    /// Returns true if the class is more important than the other.
    pub fn is_above(&self, class: IoClass, other: IoClass) -> bool {
        self.of(class).rank.load(Relaxed) < self.of(other).rank.load(Relaxed)
    }

    /// Returns true if `bytes` more of the class would exceed its share.
    pub fn fills_share(&self, class: IoClass, bytes: u64) -> bool {
        let of = self.of(class);
        of.bytes().saturating_add(bytes) > of.limit_bytes.load(Relaxed)
    }

    pub fn clean_bytes(&self, class: IoClass) -> u64 {
        self.of(class).clean_bytes.load(Relaxed)
    }

    pub fn dirty_bytes(&self, class: IoClass) -> u64 {
        self.of(class).dirty_bytes.load(Relaxed)
    }

    pub fn add_clean(&self, class: IoClass, bytes: usize) {
        let of = self.of(class);
        of.clean_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub fn take_clean(&self, class: IoClass, bytes: usize) {
        let of = self.of(class);
        of.clean_bytes.fetch_sub(bytes as u64, Relaxed);
    }

    pub fn add_dirty_page(&self, class: IoClass) {
        let of = self.of(class);
        of.dirty_bytes.fetch_add(crate::PAGE_BYTES as u64, Relaxed);
    }

    pub fn take_dirty_page(&self, class: IoClass) {
        let of = self.of(class);
        of.dirty_bytes.fetch_sub(crate::PAGE_BYTES as u64, Relaxed);
    }

    /// Returns true if bytes of this class may leave for this need.
    pub fn may_evict(&self, class: IoClass, need: Need) -> bool {
        let of = self.of(class);
        let Need::For(other) = need else {
            return true;
        };
        let rank = of.rank.load(Relaxed);
        let is_below = rank != PINNED && rank >= self.of(other).rank.load(Relaxed);
        is_below || class == other || of.is_over()
    }

    /// Returns the classes that evict next for this need: those that are least important and have
    /// bytes in memory. `tried` had nothing after all. `None`: everything else is more important.
    ///
    /// Classes above their shares are first, pinned ones too. A pinned class within its share
    /// evicts for itself, and for the budget.
    pub fn next_to_evict(&self, need: Need, tried: ClassSet) -> Option<ClassSet> {
        let (mut highest, mut found) = (0, ClassSet::NONE);
        for (class, of) in (0..).map(IoClass).zip(&self.of) {
            if of.bytes() == 0 || tried.contains(class) || !self.may_evict(class, need) {
                continue;
            }
            let rank = of.rank.load(Relaxed) + if of.is_over() { OVER } else { 0 };
            if rank > highest || found == ClassSet::NONE {
                (highest, found) = (rank, ClassSet::one(class));
            } else if rank == highest {
                found = found.and(class);
            }
        }
        (found != ClassSet::NONE).then_some(found)
    }
}

impl OfClass {
    fn is_over(&self) -> bool {
        self.bytes() > self.limit_bytes.load(Relaxed)
    }

    fn bytes(&self) -> u64 {
        let clean = self.clean_bytes.load(Relaxed);
        clean.saturating_add(self.dirty_bytes.load(Relaxed))
    }
}
