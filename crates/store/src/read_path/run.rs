//! Reads a run: adjacent regions of a container, with one read. Read-ahead by the container's
//! directory (`approach.rs`) and restores by the index (`forward.rs`) call this.
//!
//! Invariant: a region that fails here is left to a reader of that region alone, which parity may
//! help, and which gets the error.

use super::Reader;
use super::approach::page_of;
use chunk_store::container::{ReadBy, Region, RegionPlace};
use duet::Events;
use std::sync::atomic::Ordering;

/// Place of a region, and its stored bytes if a directory says so.
pub(super) type InRun = (RegionPlace, Option<u32>);

impl Reader {
    /// Reads `sectors` sectors from the first region on, and passes the sound regions to `take` in
    /// order, each with its number in `run`. Those of which `take` returns true are counted and
    /// reported: the caller has them in memory.
    pub(super) fn read_run(
        &self,
        run: &[InRun],
        sectors: u32,
        by: &mut ReadBy,
        take: &mut dyn FnMut(usize, Region) -> bool,
    ) {
        let Some((from, _)) = run.first() else {
            return;
        };
        let Some(ahead) = self.containers.ahead_by(*from, sectors, by) else {
            return;
        };
        for (number, (place, stored_bytes)) in run.iter().enumerate() {
            let read = match stored_bytes {
                Some(bytes) => self.containers.region_ahead(&ahead, *place, *bytes),
                None => self.containers.region_in(&ahead, *place),
            };
            let Some(Ok(region)) = read else {
                continue;
            };
            if !take(number, region) {
                continue;
            }
            self.region_reads.fetch_add(1, Ordering::Relaxed);
            if let Some(duet) = self.reported.get().filter(|_| by.is_from_device) {
                duet.record(&page_of(*place), Events::ADDED);
            }
        }
        self.containers.reuse_ahead(ahead);
    }
}
