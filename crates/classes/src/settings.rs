//! How a cache treats a class: the columns of an Open CAS policy file that caches need.
//!
//! Called by `policy`, which makes them, and by caches, which admit and evict by them.
//! Invariant: what a priority means for admission is decided here, for memory and for flash.

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

/// Priorities below this one are important, pinned classes too.
pub(crate) const IMPORTANT_BELOW: u8 = 128;
/// Priorities from this one on are low.
const LOW_FROM: u8 = 200;

impl Priority {
    /// Returns true if data of the class takes free space only (selective allocation of
    /// Differentiated Storage Services): it displaces no other class.
    pub const fn is_low(self) -> bool {
        matches!(self, Self::Evictable(LOW_FROM..))
    }
}

/// Says which chunks enter a cache that costs a write for each: the fast tier. DDFS (ATC'18)
/// decides by the access pattern, Differentiated Storage Services by the class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Admission {
    /// The class is not cached.
    Never,
    /// Low priority: random reads, and only while there is free space.
    WhileFree,
    /// The policy does not care: random reads.
    ByPattern,
    /// Important: whatever the access pattern, and when it is stored.
    Always,
}

impl Admission {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::Never, Self::WhileFree, Self::ByPattern, Self::Always];
}

const _: () = assert!(Admission::ALL[Admission::Always as usize] as u8 == Admission::Always as u8);

/// Part of a cache that a class may fill, in hundredths: 0 bypasses the cache, 100 is all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Share(u8);

impl Share {
    /// The class never enters the cache.
    pub const NONE: Self = Self(0);
    /// The class may fill the cache.
    pub const ALL: Self = Self(100);

    /// Makes a share that is known when the program is built. More than 100 does not compile.
    pub const fn percent<const HUNDREDTHS: u8>() -> Self {
        const { assert!(HUNDREDTHS <= 100) };
        Self(HUNDREDTHS)
    }

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

impl ClassSettings {
    /// For what no policy says anything of.
    pub const INDIFFERENT: Self = Self {
        priority: Priority::Evictable(IMPORTANT_BELOW),
        share: Share::ALL,
    };

    /// Returns what the fast tier takes of the class.
    pub const fn admission(&self) -> Admission {
        match (self.share.hundredths(), self.priority) {
            (0, _) => Admission::Never,
            (_, Priority::Pinned | Priority::Evictable(..IMPORTANT_BELOW)) => Admission::Always,
            (_, Priority::Evictable(LOW_FROM..)) => Admission::WhileFree,
            (_, Priority::Evictable(_)) => Admission::ByPattern,
        }
    }
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
    fn priorities_say_what_is_admitted() {
        let of = |priority, hundredths| {
            let share = Share::from_hundredths(hundredths).expect("a share");
            ClassSettings { priority, share }.admission()
        };
        let evictable = |priority| of(Priority::Evictable(priority), 100);
        let found = [0, 127, 128, 199, 200, 255].map(evictable);
        let expected = [
            Admission::Always,
            Admission::Always,
            Admission::ByPattern,
            Admission::ByPattern,
            Admission::WhileFree,
            Admission::WhileFree,
        ];
        assert_eq!(found, expected);
        assert_eq!(of(Priority::Pinned, 1), Admission::Always);
        assert_eq!(of(Priority::Pinned, 0), Admission::Never);
        let indifferent = ClassSettings::INDIFFERENT.admission();
        assert_eq!(indifferent, Admission::ByPattern);
        assert!(Priority::Evictable(200).is_low() && !Priority::Evictable(199).is_low());
        let numbers = Admission::ALL.map(|admission| admission as usize);
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn pinned_is_kept_longest() {
        assert!(Priority::Pinned < Priority::Evictable(0));
        assert!(Priority::Evictable(0) < Priority::Evictable(255));
    }
}
