//! Regions that readers have verified before the scrub reached them. The scrub uses it.
//!
//! Invariant: memory is bounded. A region that finds no space is read again, nothing worse.

use std::collections::{BTreeMap, BTreeSet};
use store::RegionPlace;
use units::ContainerId;

/// Maximum number of regions that are remembered: about 50 bytes each.
const REGIONS_MAX: usize = 1 << 20;

/// See the module's head.
#[derive(Default)]
pub struct ReadByOthers {
    sectors: BTreeMap<ContainerId, BTreeSet<u32>>,
    regions: usize,
}

impl ReadByOthers {
    /// A reader has verified the region.
    pub fn add(&mut self, place: RegionPlace) {
        if self.regions < REGIONS_MAX
            && self
                .sectors
                .entry(place.container)
                .or_default()
                .insert(place.sector)
        {
            self.regions += 1;
        }
    }

    /// Returns true if a reader has verified the region.
    pub fn has(&self, place: RegionPlace) -> bool {
        let sectors = self.sectors.get(&place.container);
        sectors.is_some_and(|sectors| sectors.contains(&place.sector))
    }

    /// Returns how many regions of the container readers have verified.
    pub fn regions_of(&self, container: ContainerId) -> usize {
        self.sectors.get(&container).map_or(0, BTreeSet::len)
    }

    /// The scrub has completed the container.
    pub fn forget(&mut self, container: ContainerId) {
        let sectors = self.sectors.remove(&container);
        self.regions -= sectors.map_or(0, |sectors| sectors.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut others = ReadByOthers::default();
        let place = |container, sector| RegionPlace {
            container: ContainerId(container),
            sector,
        };
        for n in 0..REGIONS_MAX as u32 {
            others.add(place(u64::from(n >> 10), n));
        }
        others.add(place(7, 1));
        others.add(place(u64::MAX, 1));
        assert!(others.regions_of(ContainerId(0)) > 0);
        assert_eq!(others.regions_of(ContainerId(u64::MAX)), 0);
        assert!(others.has(place(0, 5)) && !others.has(place(u64::MAX, 1)));
        others.forget(ContainerId(0));
        others.add(place(u64::MAX, 1));
        assert!(!others.has(place(0, 5)) && others.has(place(u64::MAX, 1)));
        assert_eq!(others.regions, REGIONS_MAX - 1023);
    }
}
