//! Classes of cached chunks, and how the tier treats each. `staging`, `victims` and `tier` call
//! this; the policy of the pool makes the settings.
//!
//! Invariant: pure. Data chunks have the class of the I/O that read them; recipe nodes and
//! container directories are one class each.

use crate::Kind;
use classes::{Admission, CLASSES, ClassSettings, Priority, Share, known};
use std::cmp::Ordering;
use units::IoClass;

/// Class of a cached chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CacheClass {
    /// Kind of the chunk.
    pub kind: Kind,
    /// I/O class; 0 unless the chunk is data.
    pub io: IoClass,
}

impl CacheClass {
    /// Number of classes.
    pub(crate) const COUNT: usize = CLASSES + 2;

    /// Makes the class of a chunk of that kind. Recipe nodes and directories have no I/O class, and
    /// a number that no policy can have is class 0.
    pub fn new(kind: Kind, io: IoClass) -> Self {
        match kind {
            Kind::Data => Self {
                kind,
                io: known(io),
            },
            Kind::Recipe | Kind::Directory => Self {
                kind,
                io: IoClass(0),
            },
        }
    }

    /// Number of the class, below [`Self::COUNT`].
    pub(crate) fn number(self) -> usize {
        match self.kind {
            Kind::Data => usize::from(self.io.0),
            Kind::Recipe => CLASSES,
            Kind::Directory => CLASSES + 1,
        }
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let data = (0..CLASSES as u8).map(|io| Self::new(Kind::Data, IoClass(io)));
        let others = [Kind::Recipe, Kind::Directory];
        data.chain(others.map(|kind| Self::new(kind, IoClass(0))))
    }
}

impl Ord for CacheClass {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for CacheClass {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How the kinds divide the tier: in proportion to these hundredths, together at most 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindShares {
    /// Data chunks.
    pub data: Share,
    /// Recipe nodes.
    pub recipes: Share,
    /// Container directories.
    pub directories: Share,
}

impl KindShares {
    /// The proportions of DDFS (section 4), whose fingerprint index has the other half.
    pub const ALONE: Self = Self {
        data: Share::percent::<70>(),
        recipes: Share::percent::<20>(),
        directories: Share::percent::<10>(),
    };

    /// Returns the share of a kind.
    pub fn of(&self, kind: Kind) -> Share {
        match kind {
            Kind::Data => self.data,
            Kind::Recipe => self.recipes,
            Kind::Directory => self.directories,
        }
    }

    /// Returns the sum, in hundredths, at most 100.
    pub(crate) fn sum(&self) -> u64 {
        let shares = Kind::ALL.map(|kind| u64::from(self.of(kind).hundredths()));
        shares.iter().sum::<u64>().min(100)
    }
}

/// Settings of all classes. They can be replaced at any time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierSettings {
    kinds: KindShares,
    data: [ClassSettings; CLASSES],
}

impl TierSettings {
    /// Makes settings under which all data chunks are one class.
    pub fn new(kinds: KindShares) -> Self {
        Self {
            kinds,
            data: [ClassSettings::INDIFFERENT; CLASSES],
        }
    }

    /// Returns settings with the same shares of kinds, and data chunks treated by their class, by
    /// number.
    #[must_use]
    pub fn with_classes(&self, data: [ClassSettings; CLASSES]) -> Self {
        Self { data, ..*self }
    }

    /// Sets how data chunks of a class are treated. The share is one of the data chunks' part.
    pub fn set(&mut self, class: IoClass, settings: ClassSettings) {
        if let Some(slot) = self.data.get_mut(usize::from(class.0)) {
            *slot = settings;
        }
    }

    /// Returns the settings of the classes of a kind. Other kinds than data do not compete within
    /// their part.
    pub(crate) fn of_kind(&self, kind: Kind) -> &[ClassSettings; CLASSES] {
        const ALONE: [ClassSettings; CLASSES] = [ClassSettings {
            priority: Priority::Evictable(0),
            ..ClassSettings::INDIFFERENT
        }; CLASSES];
        match kind {
            Kind::Data => &self.data,
            Kind::Recipe | Kind::Directory => &ALONE,
        }
    }

    /// Returns the settings of a class.
    pub fn of(&self, class: CacheClass) -> ClassSettings {
        let of_kind = self.of_kind(class.kind);
        let settings = of_kind.get(usize::from(class.io.0));
        settings.copied().unwrap_or(ClassSettings::INDIFFERENT)
    }

    /// Returns what the tier takes of data chunks of a class.
    pub(crate) fn admission(&self, class: IoClass) -> Admission {
        let class = CacheClass::new(Kind::Data, class);
        match self.bypasses(class) {
            true => Admission::Never,
            false => self.of(class).admission(),
        }
    }

    /// Returns true if chunks of the class are never cached.
    pub fn bypasses(&self, class: CacheClass) -> bool {
        let nothing = Share::NONE;
        self.kinds.of(class.kind) == nothing || self.of(class).share == nothing
    }

    /// Returns the maximum number of slots of a kind, of `slots` that all kinds have together. A
    /// small tier has a slot for everything that has a share.
    pub(crate) fn slots_of_kind(&self, kind: Kind, slots: u64) -> u64 {
        let hundredths = u64::from(self.kinds.of(kind).hundredths());
        let part = slots.saturating_mul(hundredths) / self.kinds.sum().max(1);
        part.max(u64::from(hundredths > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_divide_the_slots_and_only_data_has_classes() {
        let mut settings = TierSettings::new(KindShares::ALONE);
        let slots = |settings: &TierSettings, kind| settings.slots_of_kind(kind, 100);
        let all = Kind::ALL.map(|kind| slots(&settings, kind));
        assert_eq!(all, [70, 20, 10]);
        let half = ClassSettings {
            priority: Priority::Pinned,
            share: Share::percent::<50>(),
        };
        settings.set(IoClass(9), half);
        let class = CacheClass::new(Kind::Data, IoClass(9));
        assert_eq!(settings.of(class), half);
        let recipe = CacheClass::new(Kind::Recipe, IoClass(9));
        assert_eq!(settings.of(recipe).priority, Priority::Evictable(0));
        settings.set(
            IoClass(9),
            ClassSettings {
                share: Share::NONE,
                ..half
            },
        );
        assert!(settings.bypasses(class) && !settings.bypasses(recipe));
    }

    #[test]
    fn every_class_has_its_number() {
        let numbers: Vec<usize> = CacheClass::all().map(CacheClass::number).collect();
        assert!(numbers.into_iter().eq(0..CacheClass::COUNT));
    }
}
