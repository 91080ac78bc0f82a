//! Reads a run: adjacent regions of a container, with one read. Read-ahead by the container's
//! directory or by what lies behind a region (`approach.rs`), and restores by the index
//! (`forward.rs`) call this.
//!
//! Invariant: a region that fails here is left to a reader of that region alone, which parity may
//! help, and which gets the error.

use super::Reader;
use super::approach::page_of;
use chunk_store::container::{Ahead, ReadBy, Region, RegionPlace, VisitChunks};
use duet::Events;
use std::sync::atomic::Ordering;

impl Reader {
    /// Reads `sectors` sectors from the first region on, and passes the sound regions to `take` in
    /// order, each with its number in `run`. Those of which `take` returns true are counted and
    /// reported: the caller has them in memory.
    pub(super) fn read_run(
        &self,
        run: &[RegionPlace],
        sectors: u32,
        by: &mut ReadBy,
        take: &mut dyn FnMut(usize, Region) -> bool,
    ) {
        let ahead = run
            .first()
            .map(|from| self.containers.ahead_by(*from, sectors, by));
        let Some(ahead) = ahead.flatten() else {
            return;
        };
        for (number, place) in run.iter().enumerate() {
            if let Some(Ok(region)) = self.containers.region_in(&ahead, *place)
                && take(number, region)
            {
                self.count_read(*place, by);
            }
        }
        self.containers.reuse_ahead(ahead);
    }

    /// Reads a run as a directory has it. Returns the first region, after `first` was called with
    /// it, and passes the chunks of the others to `visit`. They are decoded where they were read.
    pub(super) fn visit_run<T>(
        &self,
        run: &[(RegionPlace, u32)],
        sectors: u32,
        by: &mut ReadBy,
        first: &dyn Fn(Region) -> T,
        visit: &mut VisitChunks<'_>,
    ) -> Option<T> {
        let (place, _) = run.first()?;
        let ahead = self.containers.ahead_by(*place, sectors, by)?;
        self.visit_read(ahead, run, by, first, visit)
    }

    /// Does the same without a directory: reads `sectors` sectors from a region on, and takes the
    /// regions that lie there side by side, until they have `raw_bytes` of chunks.
    pub(super) fn visit_side_by_side<T>(
        &self,
        (place, raw_bytes): (RegionPlace, u64),
        sectors: u32,
        by: &mut ReadBy,
        first: &dyn Fn(Region) -> T,
        visit: &mut VisitChunks<'_>,
    ) -> Option<T> {
        let ahead = self.containers.ahead_by(place, sectors, by)?;
        let run = ahead.side_by_side(place, raw_bytes);
        self.visit_read(ahead, &run, by, first, visit)
    }

    fn visit_read<T>(
        &self,
        mut ahead: Ahead,
        run: &[(RegionPlace, u32)],
        by: &mut ReadBy,
        first: &dyn Fn(Region) -> T,
        visit: &mut VisitChunks<'_>,
    ) -> Option<T> {
        let ((place, stored_bytes), behind) = run.split_first()?;
        let region = self.containers.region_ahead(&ahead, *place, *stored_bytes);
        let first = region.and_then(|region| region.ok()).map(first);
        self.containers
            .visit_ahead(&mut ahead, behind, &mut |number, chunks| {
                visit(number, chunks);
                if let Some((place, _)) = behind.get(number) {
                    self.recent.add(*place);
                    self.count_read(*place, by);
                }
            });
        self.containers.reuse_ahead(ahead);
        first
    }

    fn count_read(&self, place: RegionPlace, by: &ReadBy) {
        self.region_reads.fetch_add(1, Ordering::Relaxed);
        if let Some(duet) = self.reported.get().filter(|_| by.is_from_device) {
            duet.record(&page_of(place), Events::ADDED);
        }
    }
}
