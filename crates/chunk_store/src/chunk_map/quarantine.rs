//! Quarantine: regions whose stored bytes were found damaged, by this process or by an earlier one
//! that recorded them in the catalog. The read path, check, the pool and garbage collection fill
//! it; the chunk map asks it.
//!
//! Invariant: new data are never deduplicated against a region in quarantine, and it is read only
//! for chunks that are nowhere else. So a wrong record (a device returned garbage once) costs space
//! and no data. Retired containers are treated alike, but are not damage.

use super::retired::Retired;
use crate::container::RegionPlace;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::ContainerId;

/// Number of places from which on whole containers are recorded: memory stays bounded while a disk
/// dies.
const PLACES_MAX: usize = 1 << 16;

impl RegionPlace {
    /// Returns the place that represents a whole container: sector 0 is its header, and no region
    /// starts there.
    pub const fn whole(container: ContainerId) -> Self {
        Self {
            container,
            sector: 0,
        }
    }

    /// Returns true if this represents a whole container.
    pub const fn is_whole(&self) -> bool {
        self.sector == 0
    }
}

impl fmt::Display for RegionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sector {
            0 => write!(f, "container {}", self.container),
            sector => write!(
                f,
                "region of container {} at sector {sector}",
                self.container
            ),
        }
    }
}

/// The set. See the module's head.
#[derive(Default)]
pub struct Quarantine {
    /// False while there is no damage: nearly every lookup needs only this.
    is_used: AtomicBool,
    times_added: AtomicU64,
    places: RwLock<BTreeSet<RegionPlace>>,
    /// Containers in the trash, and those deleted from there.
    pub retired: Retired,
}

impl Quarantine {
    /// Returns true if anything is recorded as damaged.
    pub fn has_damage(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Returns true if nothing new may refer to the region: it is in quarantine, or its container
    /// is retired.
    #[inline]
    pub fn holds(&self, place: RegionPlace) -> bool {
        self.retired.holds(place.container) || self.is_damaged(place)
    }

    /// Returns true if the region or its whole container is in quarantine.
    pub fn is_damaged(&self, place: RegionPlace) -> bool {
        if !self.has_damage() {
            return false;
        }
        let places = self.places.read();
        places.contains(&place) || places.contains(&RegionPlace::whole(place.container))
    }

    /// Returns true if exactly this place is recorded.
    pub fn names(&self, place: RegionPlace) -> bool {
        self.has_damage() && self.places.read().contains(&place)
    }

    /// Records a region or a whole container. Returns false if it was recorded already.
    pub fn add(&self, place: RegionPlace) -> bool {
        let mut places = self.places.write();
        let added = match places.len() < PLACES_MAX {
            true => places.insert(place),
            false => places.insert(RegionPlace::whole(place.container)),
        };
        self.is_used.store(true, Ordering::Release);
        self.times_added
            .fetch_add(u64::from(added), Ordering::Release);
        added
    }

    /// Returns a number that changes whenever something is put into quarantine or retired.
    pub fn times_added(&self) -> u64 {
        let added = self.times_added.load(Ordering::Acquire);
        added.wrapping_add(self.retired.times_added())
    }

    /// Drops the records of a deleted container.
    pub fn forget(&self, container: ContainerId) {
        let mut places = self.places.write();
        places.retain(|place| place.container != container);
        self.is_used.store(!places.is_empty(), Ordering::Release);
    }

    /// Takes a verified place out of quarantine.
    pub fn release(&self, place: RegionPlace) {
        let mut places = self.places.write();
        places.remove(&place);
        self.is_used.store(!places.is_empty(), Ordering::Release);
    }

    /// Returns all recorded places, in order.
    pub fn places(&self) -> BTreeSet<RegionPlace> {
        self.places.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::WriterId;

    fn at(sequence: u64, sector: u32) -> RegionPlace {
        RegionPlace {
            container: ContainerId::new(WriterId(1), sequence),
            sector,
        }
    }

    #[test]
    fn a_container_stands_for_its_regions() {
        let set = Quarantine::default();
        assert!(!set.has_damage() && !set.holds(at(1, 1)));
        assert!(set.add(at(1, 1)) && !set.add(at(1, 1)));
        assert!(set.holds(at(1, 1)) && !set.holds(at(1, 2)) && !set.holds(at(2, 1)));
        assert!(set.add(at(2, 0)));
        assert!(set.holds(at(2, 7)) && !set.names(at(2, 7)) && set.names(at(2, 0)));
        set.release(at(2, 0));
        assert!(!set.holds(at(2, 7)) && set.has_damage());
        set.release(at(1, 1));
        assert!(!set.has_damage());
    }

    #[test]
    fn a_dying_disk_fills_no_memory() {
        let set = Quarantine::default();
        for sector in 1..=PLACES_MAX as u32 {
            set.add(at(1, sector));
        }
        for sector in 1..1000 {
            set.add(at(9, sector));
        }
        assert_eq!(set.places().len(), PLACES_MAX + 1);
        assert!(set.holds(at(9, 5)) && set.names(at(9, 0)));
    }
}
