//! How a cache treats a class: the three columns of an Open CAS policy file that caches need.
//!
//! Called by `policy`, which makes them, and by caches, which admit and evict by them.

/// Number of classes, 0 included: GROUP NUMBER of SCSI has six bits.
pub const CLASSES: usize = 64;

/// When blocks of a class are evicted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Priority {
    /// Never evicted to make room for another class.
    Pinned,
    /// From 0 (kept longest) to 255 (evicted first), as Open CAS counts.
    Evictable(u8),
}

/// Part of a cache that a class may fill, in hundredths: 0 bypasses the cache, 100 is all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Share(u8);

impl Share {
    /// The class never enters the cache.
    pub const NONE: Self = Self(0);
    /// The class may fill the cache.
    pub const ALL: Self = Self(100);

    /// Returns `None` above 100.
    pub const fn from_hundredths(hundredths: u8) -> Option<Self> {
        match hundredths {
            0..=100 => Some(Self(hundredths)),
            _ => None,
        }
    }

    /// The share in hundredths.
    pub const fn hundredths(self) -> u8 {
        self.0
    }

    /// Bytes that the class may fill of a cache of `capacity_bytes`.
    pub const fn of(self, capacity_bytes: u64) -> u64 {
        (capacity_bytes as u128 * self.0 as u128 / 100) as u64
    }
}

/// Settings of a class that a cache obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassSettings {
    /// When its blocks are evicted.
    pub priority: Priority,
    /// How much of the cache it may fill.
    pub share: Share,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_most_all() {
        assert_eq!(Share::from_hundredths(101), None);
        let half = Share::from_hundredths(50).expect("a share");
        assert_eq!(half.of(u64::MAX), u64::MAX / 2);
        assert_eq!(Share::ALL.of(7), 7);
        assert_eq!(Share::NONE.of(7), 0);
    }

    #[test]
    fn pinned_is_kept_longest() {
        assert!(Priority::Pinned < Priority::Evictable(0));
        assert!(Priority::Evictable(0) < Priority::Evictable(255));
    }
}
