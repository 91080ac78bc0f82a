//! Remembers the regions that were read last for callers with a cache of their own. Maintenance
//! that begins to listen learns from it what is probably in memory.
//!
//! Invariant: memory is bounded; entries are hints. Chunks of a region may have left memory since.

use super::approach::page_of;
use chunk_store::container::RegionPlace;
use duet::{Events, Page, Position, Present, Space};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Number of regions: 16 bytes each.
const REGIONS_MAX: usize = 1 << 14;

/// See the module's head.
#[derive(Default)]
pub struct RecentRegions(Mutex<VecDeque<RegionPlace>>);

impl RecentRegions {
    /// A region was read.
    pub(super) fn add(&self, place: RegionPlace) {
        let mut places = self.0.lock();
        if places.back() == Some(&place) {
            return;
        }
        if places.len() >= REGIONS_MAX {
            places.pop_front();
        }
        places.push_back(place);
    }
}

impl Present for RecentRegions {
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position> {
        let places = self.0.lock();
        let from = position.map_or(0, |position| position.0[0] as usize);
        let rest = places.iter().skip(from).take(max.max(1));
        let is_wanted = space == Space::Containers;
        let visited = rest
            .filter(|_| is_wanted)
            .map(|place| visit(&page_of(*place), Events::ADDED));
        let next = from + visited.count();
        (is_wanted && next < places.len()).then_some(Position([next as u64, 0]))
    }

    fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events)) {
        let places = self.0.lock();
        let is_wanted =
            |place: &&RegionPlace| space == Space::Containers && place.container.0 == object;
        for place in places.iter().filter(is_wanted) {
            visit(&page_of(*place), Events::ADDED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ContainerId;

    #[test]
    fn the_last_ones_are_replayed_in_pieces() {
        let recent = RecentRegions::default();
        let place = |n: u32| RegionPlace {
            container: ContainerId(u64::from(n / 100)),
            sector: n,
        };
        (0..REGIONS_MAX as u32 + 50).for_each(|n| recent.add(place(n)));
        let (mut seen, mut position) = (Vec::new(), None);
        loop {
            let mut visit = |page: &Page, _: Events| seen.push(page.index);
            position = recent.replay(Space::Containers, position, 1000, &mut visit);
            if position.is_none() {
                break;
            }
        }
        let expected: Vec<u64> = (50..REGIONS_MAX as u64 + 50).collect();
        assert_eq!(seen, expected);
        let mut of_one = 0;
        recent.replay_object(Space::Containers, 7, &mut |_, _| of_one += 1);
        assert_eq!(of_one, 100);
        let mut visit = |_: &Page, _: Events| panic!("no pages");
        assert_eq!(recent.replay(Space::Pages, None, 9, &mut visit), None);
    }
}
