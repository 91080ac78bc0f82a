//! Settings of the classes that are in force, and the memory that each class takes (Differentiated
//! Storage Services, SOSP'11). `cache` chooses by it which classes evict; both sides count here.
//!
//! Invariant: settings may change at any moment, and no lock is needed to read them. A choice looks
//! at each class once. While no class differs from the others, nothing here is asked.

use crate::policy::ClassSet;
use classes::{CLASSES, ClassSettings, Priority, Share};
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
    /// Nothing may leave.
    Nothing,
    /// Only what is less important than this class may leave.
    Above(IoClass),
    /// The budget is exceeded: anything may have to leave.
    Budget,
}

/// Settings of a class.
struct Setting {
    rank: AtomicU16,
    limit_bytes: AtomicU64,
}

/// Bytes of a class in memory.
#[derive(Default)]
struct Size {
    clean_bytes: AtomicU64,
    dirty_bytes: AtomicU64,
}

/// Settings and sizes of all classes.
pub(crate) struct Classes {
    /// False while all classes are equal and may fill the cache.
    are_distinct: AtomicBool,
    bytes_max: u64,
    settings: [Setting; CLASSES],
    sizes: Sizes,
}

/// Sizes change all the time. They have their own cache lines, so that each processor keeps the
/// settings in its cache.
#[repr(align(128))]
struct Sizes([Size; CLASSES]);

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
            settings: std::array::from_fn(|_| Setting {
                rank: AtomicU16::new(1),
                limit_bytes: AtomicU64::new(u64::MAX),
            }),
            sizes: Sizes(std::array::from_fn(|_| Size::default())),
        }
    }

    fn rank(&self, class: IoClass) -> u16 {
        // `known` has made it smaller than their number.
        let setting = &self.settings[usize::from(class.0) % CLASSES];
        setting.rank.load(Relaxed)
    }

    fn limit_bytes(&self, class: IoClass) -> u64 {
        let setting = &self.settings[usize::from(class.0) % CLASSES];
        setting.limit_bytes.load(Relaxed)
    }

    fn size(&self, class: IoClass) -> &Size {
        &self.sizes.0[usize::from(class.0) % CLASSES]
    }

    fn bytes(&self, class: IoClass) -> u64 {
        self.clean_bytes(class)
            .saturating_add(self.dirty_bytes(class))
    }

    fn is_over(&self, class: IoClass) -> bool {
        self.bytes(class) > self.limit_bytes(class)
    }

    /// Changes the settings. Returns true if classes differ now.
    pub fn set(&self, settings: &[ClassSettings; CLASSES]) -> bool {
        for (of, settings) in self.settings.iter().zip(settings) {
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
        self.rank(class) != BYPASSING
    }

    /// Returns true if the class is more important than the other.
    pub fn is_above(&self, class: IoClass, other: IoClass) -> bool {
        self.rank(class) < self.rank(other)
    }

    /// Returns true if `bytes` more of the class would exceed its share.
    pub fn fills_share(&self, class: IoClass, bytes: u64) -> bool {
        self.bytes(class).saturating_add(bytes) > self.limit_bytes(class)
    }

    pub fn clean_bytes(&self, class: IoClass) -> u64 {
        self.size(class).clean_bytes.load(Relaxed)
    }

    pub fn dirty_bytes(&self, class: IoClass) -> u64 {
        self.size(class).dirty_bytes.load(Relaxed)
    }

    pub fn add_clean(&self, class: IoClass, bytes: usize) {
        let size = self.size(class);
        size.clean_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub fn take_clean(&self, class: IoClass, bytes: usize) {
        let size = self.size(class);
        size.clean_bytes.fetch_sub(bytes as u64, Relaxed);
    }

    pub fn add_dirty_page(&self, class: IoClass) {
        let size = self.size(class);
        size.dirty_bytes
            .fetch_add(crate::PAGE_BYTES as u64, Relaxed);
    }

    pub fn take_dirty_page(&self, class: IoClass) {
        let size = self.size(class);
        size.dirty_bytes
            .fetch_sub(crate::PAGE_BYTES as u64, Relaxed);
    }

    /// Returns true if bytes of this class may leave for this need.
    pub fn may_evict(&self, class: IoClass, need: Need) -> bool {
        let rank = self.rank(class);
        match need {
            Need::Nothing => false,
            Need::Budget => true,
            Need::Above(other) => rank > self.rank(other),
            Need::For(other) => {
                let is_below = rank != PINNED && rank >= self.rank(other);
                is_below || class == other || self.is_over(class)
            }
        }
    }

    /// Returns the classes that evict next for this need: those that are least important and have
    /// bytes in memory. `tried` had nothing after all. `None`: everything else is more important.
    ///
    /// Classes above their shares are first, pinned ones too. A pinned class within its share
    /// evicts for itself, and for the budget.
    pub fn next_to_evict(&self, need: Need, tried: ClassSet) -> Option<ClassSet> {
        let (mut highest, mut found) = (0, ClassSet::NONE);
        for class in (0..CLASSES as u8).map(IoClass) {
            if self.bytes(class) == 0 || tried.contains(class) || !self.may_evict(class, need) {
                continue;
            }
            let rank = self.rank(class) + if self.is_over(class) { OVER } else { 0 };
            if rank > highest || found == ClassSet::NONE {
                (highest, found) = (rank, ClassSet::one(class));
            } else if rank == highest {
                found = found.and(class);
            }
        }
        (found != ClassSet::NONE).then_some(found)
    }
}
