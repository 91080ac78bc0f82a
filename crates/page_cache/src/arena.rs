//! Indexes free memory: runs of granules in slabs, and the owners of the other runs. `memory` calls
//! this under its lock.
//!
//! Invariant: an open slab is in the list of the length of its longest free run. A closed slab is
//! in no list, so that nothing is put there while it is cleared. The bits themselves belong to the
//! extents; this is an index of them.

mod clearing;

use crate::extent::{Extent, Run, granules};
use crate::table::touched_bytes;
pub(crate) use clearing::Window;
use std::sync::Arc;

const NONE: u32 = u32::MAX;
const REST: u32 = u32::MAX - 1;

/// Owner of a run: a number that the clean or the dirty side of the cache assigns.
pub(crate) type Owner = u32;

struct Slab {
    /// Longest run of free granules, according to the list.
    longest: u32,
    closed: bool,
    previous: u32,
    next: u32,
    /// Owner of each run at its first granule, and `REST` at its others. `NONE` at free granules,
    /// and before the owner is known.
    owners: [Owner; 64],
}

/// Index of slabs by free runs.
#[derive(Default)]
pub(crate) struct Arena {
    extents: Vec<Option<Arc<Extent>>>,
    slabs: Vec<Slab>,
    slabs_per_extent: usize,
    /// First slab of each length, from 1 on; and one bit for each list that is not empty.
    lists: Vec<u32>,
    filled: u64,
    free_granules: u64,
    /// Position at which the next search for a window starts.
    hand: usize,
}

/// Returns the length of the longest run of ones.
fn longest_run(mut free: u64) -> u32 {
    let mut longest = 0;
    while free != 0 {
        free &= free << 1;
        longest += 1;
    }
    longest
}

/// Returns the lowest position of `granules` consecutive ones.
fn first_run(free: u64, granules: u32) -> Option<u32> {
    let (mut starts, mut length) = (free, 1);
    while length < granules {
        let more = length.min(granules - length);
        starts &= starts >> more;
        length += more;
    }
    (starts != 0).then(|| starts.trailing_zeros())
}

impl Arena {
    /// Makes an index without memory, with address space for `slabs_max` slabs.
    pub fn new(slabs_per_extent: usize, slabs_max: usize) -> Self {
        Self {
            slabs: Vec::with_capacity(slabs_max),
            extents: Vec::with_capacity(slabs_max / slabs_per_extent),
            slabs_per_extent,
            lists: vec![NONE; 64],
            ..Self::default()
        }
    }

    pub fn memory_bytes(&self) -> usize {
        touched_bytes(&self.slabs) + touched_bytes(&self.extents)
    }

    /// Counts granules without an owner in open slabs.
    pub fn free_granules(&self) -> u64 {
        self.free_granules
    }

    /// Returns the number of the first slab in the next added extent.
    fn slab_next(&self) -> u32 {
        let gap = self.extents.iter().position(Option::is_none);
        (gap.unwrap_or(self.extents.len()) * self.slabs_per_extent) as u32
    }

    /// Adds an extent. Its first slab gets the number `slab_next`.
    pub fn add(&mut self, extent: Extent) {
        let first = self.slab_next();
        let extent = extent.numbered(first);
        let number = first as usize / self.slabs_per_extent.max(1);
        if number == self.extents.len() {
            self.extents.push(None);
            self.slabs.extend((0..self.slabs_per_extent).map(|_| Slab {
                longest: 0,
                closed: true,
                previous: NONE,
                next: NONE,
                owners: [NONE; 64],
            }));
        }
        if let Some(place) = self.extents.get_mut(number) {
            *place = Some(extent);
        }
        for slab in first..first + self.slabs_per_extent as u32 {
            self.open(slab);
        }
    }

    fn extent_of(&self, slab: u32) -> Option<(&Arc<Extent>, usize)> {
        let number = slab as usize / self.slabs_per_extent;
        let extent = self.extents.get(number)?.as_ref()?;
        Some((extent, slab as usize % self.slabs_per_extent))
    }

    fn free(&self, slab: u32) -> u64 {
        self.extent_of(slab)
            .map_or(0, |(extent, within)| extent.free(within))
    }

    /// Copies `bytes` into free memory if there is a place for them.
    pub fn allocate(&mut self, bytes: &[u8]) -> Option<Run> {
        let wanted = granules(bytes.len());
        // Take the shortest run that is long enough: long runs stay for long chunks.
        let lists = self.filled >> (wanted - 1).min(63) << (wanted - 1).min(63);
        let list = (lists != 0 && wanted <= 64).then(|| lists.trailing_zeros())?;
        let slab = *self.lists.get(list as usize)?;
        self.allocate_in(slab, bytes)
    }

    fn allocate_in(&mut self, slab: u32, bytes: &[u8]) -> Option<Run> {
        let wanted = granules(bytes.len());
        let (extent, within) = self.extent_of(slab)?;
        let first = first_run(extent.free(within), wanted)?;
        let run = extent.claim(within, first, bytes)?;
        let slab_is_open = self.slabs.get(slab as usize).is_some_and(|s| !s.closed);
        if slab_is_open {
            self.free_granules -= u64::from(wanted);
            self.relist(slab);
        }
        Some(run)
    }

    /// Sets the owner of the run of `granules` at that position.
    pub fn set_owner(&mut self, (slab, first): (u32, u32), granules: u32, owner: Owner) {
        self.mark((slab, first), granules, (owner, REST));
    }

    fn mark(&mut self, (slab, first): (u32, u32), granules: u32, (begin, rest): (Owner, Owner)) {
        let of = self.slabs.get_mut(slab as usize).map(|s| &mut s.owners);
        let range = first as usize..(first + granules) as usize;
        if let Some(places) = of.and_then(|o| o.get_mut(range)) {
            places.fill(rest);
            places.iter_mut().take(1).for_each(|place| *place = begin);
        }
    }

    /// Notes that a run is free again: its bits are clear.
    pub fn freed(&mut self, (slab, first): (u32, u32), granules: u32) {
        self.mark((slab, first), granules, (NONE, NONE));
        if self.slabs.get(slab as usize).is_some_and(|s| !s.closed) {
            self.free_granules += u64::from(granules);
            self.relist(slab);
        }
    }

    fn open(&mut self, slab: u32) {
        let free = self.free(slab);
        self.free_granules += u64::from(free.count_ones());
        if let Some(of) = self.slabs.get_mut(slab as usize) {
            of.closed = false;
        }
        self.relist(slab);
    }

    fn close(&mut self, slab: u32) {
        self.free_granules -= u64::from(self.free(slab).count_ones());
        self.unlist(slab);
        if let Some(of) = self.slabs.get_mut(slab as usize) {
            of.closed = true;
        }
    }

    fn relist(&mut self, slab: u32) {
        let longest = longest_run(self.free(slab));
        if self
            .slabs
            .get(slab as usize)
            .is_none_or(|s| s.longest == longest)
        {
            return;
        }
        self.unlist(slab);
        let Some(head) = longest
            .checked_sub(1)
            .and_then(|n| self.lists.get_mut(n as usize))
        else {
            return;
        };
        let next = std::mem::replace(head, slab);
        self.filled |= 1 << (longest - 1);
        if let Some(of) = self.slabs.get_mut(next as usize) {
            of.previous = slab;
        }
        if let Some(of) = self.slabs.get_mut(slab as usize) {
            (of.longest, of.previous, of.next) = (longest, NONE, next);
        }
    }

    fn unlist(&mut self, slab: u32) {
        let Some(of) = self.slabs.get_mut(slab as usize) else {
            return;
        };
        let Some(list) = std::mem::take(&mut of.longest).checked_sub(1) else {
            return;
        };
        let (previous, next) = (of.previous, of.next);
        if let Some(of) = self.slabs.get_mut(next as usize) {
            of.previous = previous;
        }
        if let Some(of) = self.slabs.get_mut(previous as usize) {
            of.next = next;
        } else if let Some(head) = self.lists.get_mut(list as usize) {
            *head = next;
            if next == NONE {
                self.filled &= !(1 << list);
            }
        }
    }
}

#[cfg(test)]
mod tests;
