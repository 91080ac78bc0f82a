//! A set of classes, as a word. Caches name with it the classes that evict together.

use crate::CLASSES;
use units::IoClass;

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassSet(u64);

const _: () = assert!(CLASSES <= u64::BITS as usize);

impl ClassSet {
    /// All classes.
    pub const ALL: Self = Self(u64::MAX);
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Makes the set of this class alone.
    pub const fn one(class: IoClass) -> Self {
        Self(1 << (class.0 & 63))
    }

    /// Returns true if the class is one of them.
    pub const fn contains(self, class: IoClass) -> bool {
        self.0 & Self::one(class).0 != 0
    }

    /// Adds a class.
    pub const fn and(self, class: IoClass) -> Self {
        Self(self.0 | Self::one(class).0)
    }

    /// Adds the classes of another set.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Removes a class.
    pub const fn without(self, class: IoClass) -> Self {
        Self(self.0 & !Self::one(class).0)
    }

    /// Returns the classes that are in both sets.
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if it has exactly one class.
    pub const fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Yields the classes, the smallest first.
    pub fn iter(self) -> impl Iterator<Item = IoClass> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let class = (left != 0).then(|| IoClass(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            class
        })
    }
}
