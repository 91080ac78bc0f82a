//! Which class may have more of a cache, and which gives up space: selective allocation and
//! selective eviction (Differentiated Storage Services, SOSP'11). The page cache and the fast tier
//! decide by this and keep their own order within a class; the evaluation drives the same.
//!
//! 1. A class without a share keeps nothing ([`ClassOccupancy::keeps`]).
//! 2. A class that fills its share evicts its own, also while there is free space
//!    ([`ClassOccupancy::fills_share`]).
//! 3. When the cache is full, classes above their shares evict first, pinned ones too; then the
//!    least important class that is not more important than what comes. Equally important classes
//!    evict together. Pinned classes evict for themselves ([`ClassOccupancy::next_to_evict`]).
//! 4. There is no such class: what comes does not enter.
//! 5. What comes of a low class ([`Priority::is_low`]) takes free space. Without any it replaces
//!    its own, and displaces no other class, however unimportant: read-ahead needs a little memory,
//!    but a stream of low data must not turn the whole cache over.
//!
//! Invariant: settings may change at any moment, and no lock is needed to read them. A choice looks
//! at each class once. While no class differs from the others, caches need not ask.

use crate::class_set::ClassSet;
use crate::settings::{CLASSES, ClassSettings, IMPORTANT_BELOW, Priority, Share};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use units::IoClass;

/// Ranks: 0 is pinned, then priorities from 0 to 255, then classes that are not to be kept. The
/// highest rank leaves first.
const PINNED: u16 = 0;
const BYPASSING: u16 = 257;
/// Rank of the least important priority that is important: ranks are one above priorities.
const IMPORTANT: u16 = IMPORTANT_BELOW as u16;
/// Rank of the least important priority that is not low.
const LOW_ABOVE: u16 = 200;
/// Added to the rank of a class above its share.
const OVER: u16 = 1000;

const _: () = assert!(Priority::Evictable(LOW_ABOVE as u8).is_low());
const _: () = assert!(!Priority::Evictable(LOW_ABOVE as u8 - 1).is_low());

/// Cause of an eviction. It decides which classes may evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Something of this class comes.
    For(IoClass),
    /// Something that has no class here comes, and has a right to the space: pinned classes stay
    /// within their shares.
    Other,
    /// Nothing may leave.
    Nothing,
    /// Only what is less important than this class may leave.
    Above(IoClass),
    /// The budget is exceeded: anything may have to leave, pinned classes last.
    Budget,
}

/// Settings of a class.
struct Setting {
    rank: AtomicU16,
    limit: AtomicU64,
}

/// Part of the cache that a class has.
#[derive(Default)]
struct Size {
    clean: AtomicU64,
    dirty: AtomicU64,
}

/// Settings of the classes of a cache that are in force, and what each class has of it. Sizes have
/// one unit, which the cache chooses: bytes, or blocks.
pub struct ClassOccupancy {
    /// False while all classes are equal and may fill the cache.
    are_distinct: AtomicBool,
    /// A share above 0 is as much at least: 1 % of a tiny cache is not "do not keep".
    share_min: u64,
    settings: [Setting; CLASSES],
    sizes: Sizes,
}

/// Sizes change all the time. They have their own cache lines, so that each processor keeps the
/// settings in its cache.
#[repr(align(128))]
struct Sizes([Size; CLASSES]);

/// Returns a class that a policy can have: other numbers are class 0.
pub fn known(class: IoClass) -> IoClass {
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

impl ClassOccupancy {
    /// Makes equal classes. A share above 0 is `share_min` at least.
    pub fn new(share_min: u64) -> Self {
        Self {
            are_distinct: AtomicBool::new(false),
            share_min,
            settings: std::array::from_fn(|_| Setting {
                rank: AtomicU16::new(1),
                limit: AtomicU64::new(u64::MAX),
            }),
            sizes: Sizes(std::array::from_fn(|_| Size::default())),
        }
    }

    #[inline]
    fn rank(&self, class: IoClass) -> u16 {
        // `known` has made it smaller than their number.
        let setting = &self.settings[usize::from(class.0) % CLASSES];
        setting.rank.load(Relaxed)
    }

    fn limit(&self, class: IoClass) -> u64 {
        let setting = &self.settings[usize::from(class.0) % CLASSES];
        setting.limit.load(Relaxed)
    }

    #[inline]
    fn size(&self, class: IoClass) -> &Size {
        &self.sizes.0[usize::from(class.0) % CLASSES]
    }

    /// Returns what a class has.
    pub fn held(&self, class: IoClass) -> u64 {
        self.clean(class).saturating_add(self.dirty(class))
    }

    fn is_over(&self, class: IoClass) -> bool {
        self.held(class) > self.limit(class)
    }

    /// Changes the settings, of a cache of that capacity. Returns true if classes differ now.
    pub fn set(&self, capacity: u64, settings: &[ClassSettings; CLASSES]) -> bool {
        for (of, settings) in self.settings.iter().zip(settings) {
            let limit = match settings.share {
                Share::NONE => 0,
                Share::ALL => u64::MAX,
                share => share.of(capacity).max(self.share_min),
            };
            of.rank.store(rank_of(settings), Relaxed);
            of.limit.store(limit, Relaxed);
        }
        let first = settings.first();
        let are_equal = settings.iter().all(|of| Some(of) == first);
        let are_free = first.is_some_and(|of| of.priority != Priority::Pinned)
            && first.is_some_and(|of| of.share == Share::ALL);
        let are_distinct = !(are_equal && are_free);
        self.are_distinct.store(are_distinct, Relaxed);
        are_distinct
    }

    /// Returns false while all classes are equal and may fill the cache.
    #[inline]
    pub fn are_distinct(&self) -> bool {
        self.are_distinct.load(Relaxed)
    }

    /// Returns true if the cache keeps something of the class.
    pub fn keeps(&self, class: IoClass) -> bool {
        self.rank(class) != BYPASSING
    }

    /// Returns true if classes differ, and the class is one of those that matter: pinned, or below
    /// the middle of the priorities.
    pub fn is_important(&self, class: IoClass) -> bool {
        self.are_distinct() && self.rank(class) <= IMPORTANT
    }

    /// Returns true if the class is more important than the other.
    #[inline]
    pub fn is_above(&self, class: IoClass, other: IoClass) -> bool {
        self.rank(class) < self.rank(other)
    }

    /// Returns true if `more` of the class would exceed its share.
    pub fn fills_share(&self, class: IoClass, more: u64) -> bool {
        self.held(class).saturating_add(more) > self.limit(class)
    }

    /// Returns what a class has that is stored elsewhere too.
    pub fn clean(&self, class: IoClass) -> u64 {
        self.size(class).clean.load(Relaxed)
    }

    /// Returns what a class has that is not stored elsewhere yet.
    pub fn dirty(&self, class: IoClass) -> u64 {
        self.size(class).dirty.load(Relaxed)
    }

    /// Counts what came.
    #[inline]
    pub fn add_clean(&self, class: IoClass, size: u64) {
        self.size(class).clean.fetch_add(size, Relaxed);
    }

    /// Counts what left.
    #[inline]
    pub fn take_clean(&self, class: IoClass, size: u64) {
        self.size(class).clean.fetch_sub(size, Relaxed);
    }

    /// Counts dirty data that came.
    #[inline]
    pub fn add_dirty(&self, class: IoClass, size: u64) {
        self.size(class).dirty.fetch_add(size, Relaxed);
    }

    /// Counts dirty data that left or became clean.
    #[inline]
    pub fn take_dirty(&self, class: IoClass, size: u64) {
        self.size(class).dirty.fetch_sub(size, Relaxed);
    }

    /// Returns true if the class may evict for this need.
    pub fn may_evict(&self, class: IoClass, need: Need) -> bool {
        let rank = self.rank(class);
        match need {
            Need::Nothing => false,
            Need::Budget => true,
            Need::Other => rank != PINNED || self.is_over(class),
            Need::Above(other) => rank > self.rank(other),
            Need::For(other) => {
                let other_rank = self.rank(other);
                let is_below = rank != PINNED && rank >= other_rank && other_rank <= LOW_ABOVE;
                is_below || class == other || self.is_over(class)
            }
        }
    }

    /// Returns the classes that evict next for this need: those that are least important and have
    /// something. `tried` had nothing after all. `None`: everything else is more important.
    ///
    /// Classes above their shares are first, pinned ones too. A pinned class within its share
    /// evicts for itself, and for the budget.
    pub fn next_to_evict(&self, need: Need, tried: ClassSet) -> Option<ClassSet> {
        let (mut highest, mut found) = (0, ClassSet::NONE);
        for class in (0..CLASSES as u8).map(IoClass) {
            if self.held(class) == 0 || tried.contains(class) || !self.may_evict(class, need) {
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

#[cfg(test)]
mod tests;
