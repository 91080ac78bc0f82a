//! Pages, events, and the masks that select events. The page cache and tasks use them.
//!
//! Invariant: a mask never has both a state and a single event of the same pair.

/// Index space of a table: the meaning of object and page numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Space {
    /// Containers and their regions: where bytes are stored.
    Containers = 0,
    /// Chunks of volumes, snapshots and streams, in memory by place.
    Chunks = 1,
    /// Pages of 4 KiB: dirty pages of volumes, or pages of files on a Linux host.
    Pages = 2,
}

impl Space {
    pub(crate) const COUNT: usize = 3;
}

/// A page: the unit of events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Page {
    /// Space of the numbers.
    pub space: Space,
    /// Container, volume, snapshot or file.
    pub object: u64,
    /// Distinguishes objects that used the same number one after another (inodes); else 0.
    pub generation: u32,
    /// Region, chunk or page of the object.
    pub index: u64,
}

/// A set of events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Events(pub(crate) u8);

impl Events {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The page came into memory.
    pub const ADDED: Self = Self(1);
    /// The page is no longer in memory.
    pub const REMOVED: Self = Self(2);
    /// The page has bytes that storage does not have, and had none before.
    pub const DIRTIED: Self = Self(4);
    /// The page has no dirty bytes in memory any more: storage (or the journal) has them.
    pub const FLUSHED: Self = Self(8);

    /// Union.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Intersection.
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Replaces each event by the other one of its pair.
    pub const fn opposite(self) -> Self {
        Self((self.0 & 0b0101) << 1 | (self.0 & 0b1010) >> 1)
    }

    /// Returns true if the set contains all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if the set contains any of `other`.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (Self::ADDED, "Added"),
            (Self::REMOVED, "Removed"),
            (Self::DIRTIED, "Dirtied"),
            (Self::FLUSHED, "Flushed"),
        ];
        let set = names.iter().filter(|(event, _)| self.has(*event));
        f.debug_list().entries(set.map(|(_, name)| name)).finish()
    }
}

/// The events that a session wants: single events, or the states that pairs of them make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask {
    pub(crate) events: u8,
    pub(crate) states: u8,
}

/// A mask has a state and one of its two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a session cannot ask for a state and for an event of the same pair")]
pub struct MixedMask;

impl Mask {
    /// [`Events::ADDED`].
    pub const ADDED: Self = Self::of_events(1);
    /// [`Events::REMOVED`].
    pub const REMOVED: Self = Self::of_events(2);
    /// [`Events::DIRTIED`].
    pub const DIRTIED: Self = Self::of_events(4);
    /// [`Events::FLUSHED`].
    pub const FLUSHED: Self = Self::of_events(8);
    /// Presence in memory: Added and Removed cancel each other before delivery.
    pub const EXISTS: Self = Self::of_states(1 | 2);
    /// Presence of dirty bytes: Dirtied and Flushed cancel each other before delivery.
    pub const MODIFIED: Self = Self::of_states(4 | 8);

    const fn of_events(events: u8) -> Self {
        Self { events, states: 0 }
    }

    const fn of_states(states: u8) -> Self {
        Self { events: 0, states }
    }

    /// Union. Fails if one has a state and the other an event of the same pair.
    pub const fn and(self, other: Self) -> Result<Self, MixedMask> {
        let events = self.events | other.events;
        let states = self.states | other.states;
        let both = Self { events, states };
        if events & states == 0 {
            Ok(both)
        } else {
            Err(MixedMask)
        }
    }

    /// Returns true if the mask has that state.
    pub const fn has_state(self, state: Self) -> bool {
        self.states & state.states == state.states
    }

    /// All event bits that concern the mask.
    pub(crate) const fn wanted(self) -> u8 {
        self.events | self.states
    }
}

/// Undelivered events of a page, as a session gets them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Item {
    /// The page.
    pub page: Page,
    /// For a state: the event that leads to the current state.
    pub events: Events,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_event_of_one_pair_do_not_mix() {
        assert_eq!(Mask::EXISTS.and(Mask::ADDED), Err(MixedMask));
        assert_eq!(Mask::FLUSHED.and(Mask::MODIFIED), Err(MixedMask));
        let collect = Mask::EXISTS.and(Mask::FLUSHED).expect("two pairs");
        assert_eq!(collect.wanted(), 1 | 2 | 8);
        assert!(collect.has_state(Mask::EXISTS) && !collect.has_state(Mask::MODIFIED));
    }

    #[test]
    fn events_say_their_names() {
        let both = Events::ADDED.and(Events::DIRTIED);
        assert_eq!(format!("{both:?}"), r#"["Added", "Dirtied"]"#);
        assert!(both.has(Events::ADDED) && !both.has(Events::REMOVED));
    }
}
