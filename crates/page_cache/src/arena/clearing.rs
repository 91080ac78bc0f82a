//! Clears windows and extents. It closes them, so that nothing is put there while their owners
//! leave, then opens or removes them. `memory` calls this.
//!
//! Invariant: the caller that closes a window or an extent also opens or removes it.

use super::{Arena, NONE, Owner, REST};
use crate::extent::{Extent, Run, granules};
use std::sync::Arc;

/// Number of slabs that a search for a window examines.
const LOOKED_AT: usize = 16;

/// A window of a slab that is to become free. Its owners have to leave.
pub(crate) struct Window {
    slab: u32,
    first: u32,
    granules: u32,
    pub owners: Vec<Owner>,
}

impl Arena {
    /// Closes the slab with the cheapest window to clear, among the next few slabs.
    pub fn close_window(&mut self, len: usize) -> Option<Window> {
        // Align, so that windows of one size do not overlap in part.
        let granules = granules(len).next_power_of_two().min(64);
        let count = self.slabs.len();
        let mut best: Option<(u32, u32, u32)> = None;
        for _ in 0..LOOKED_AT.min(count) {
            self.hand = (self.hand + 1) % count;
            let slab = self.hand as u32;
            if self.slabs.get(self.hand).is_none_or(|s| s.closed) {
                continue;
            }
            let free = self.free(slab);
            for first in (0..64).step_by(granules as usize) {
                let window = (u64::MAX >> (64 - granules)) << first;
                let taken = (window & !free).count_ones();
                if best.is_none_or(|(least, ..)| taken < least) {
                    best = Some((taken, slab, first));
                }
            }
        }
        let (_, slab, first) = best?;
        self.close(slab);
        let owners = self.owners(slab, first, granules);
        Some(Window {
            slab,
            first,
            granules,
            owners,
        })
    }

    /// Returns the owners of the runs that reach into the window. A run of unknown owner stays
    /// where it is.
    fn owners(&self, slab: u32, first: u32, granules: u32) -> Vec<Owner> {
        let Some(of) = self.slabs.get(slab as usize).map(|s| &s.owners) else {
            return Vec::new();
        };
        let at = |granule: u32| of.get(granule as usize).copied().unwrap_or(NONE);
        // A run that begins before the window may reach into it.
        let mut from = first;
        while from > 0 && at(from) == REST {
            from -= 1;
        }
        let owners = (from..first + granules).map(at);
        owners.filter(|owner| *owner < REST).collect()
    }

    /// Opens the window's slab. Puts `bytes` into the window if it is free now.
    pub fn open_window(&mut self, window: &Window, bytes: &[u8]) -> Option<Run> {
        let mask = (u64::MAX >> (64 - window.granules)) << window.first;
        let is_free = self.free(window.slab) & mask == mask;
        let (extent, within) = self.extent_of(window.slab)?;
        let run = match is_free {
            true => extent.claim(within, window.first, bytes),
            false => None,
        };
        self.open(window.slab);
        run
    }

    /// Closes the extent with the most free granules, or the `nth` after it. Its owners have to
    /// leave.
    pub fn close_extent(&mut self, nth: usize) -> Option<(usize, Vec<Owner>)> {
        let free = |number: usize| {
            let slabs = self.slabs_of(number);
            let is_open = |s: &u32| self.slabs.get(*s as usize).is_some_and(|s| !s.closed);
            let open = slabs.clone().all(|s| is_open(&s));
            (open && self.extents.get(number).is_some_and(Option::is_some))
                .then(|| slabs.map(|s| self.free(s).count_ones()).sum::<u32>())
        };
        let all = 0..self.extents.len();
        let mut by_free: Vec<_> = all.filter_map(|n| Some((free(n)?, n))).collect();
        by_free.sort_unstable_by(|a, b| b.cmp(a));
        let (_, number) = *by_free.get(nth)?;
        let mut owners = Vec::new();
        for slab in self.slabs_of(number) {
            self.close(slab);
            owners.extend(self.owners(slab, 0, 64));
        }
        Some((number, owners))
    }

    /// Returns the extent if all of it is free now; opens it again otherwise.
    pub fn remove_extent(&mut self, number: usize) -> Option<Arc<Extent>> {
        let mut slabs = self.slabs_of(number);
        if slabs.clone().all(|slab| self.free(slab) == u64::MAX) {
            return self.extents.get_mut(number)?.take();
        }
        slabs.by_ref().for_each(|slab| self.open(slab));
        None
    }

    fn slabs_of(&self, extent: usize) -> std::ops::Range<u32> {
        let first = extent * self.slabs_per_extent;
        first as u32..(first + self.slabs_per_extent) as u32
    }
}
