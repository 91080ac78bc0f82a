//! Reads an object from beginning to end: regions are read in the order of their places on the
//! device, not in the order of need (forward assembly: Lillibridge, Eshghi, Bhagwat, FAST'13).
//! Restore, dump and export call this.
//!
//! ```text
//! pieces of a segment -> expected regions -> sorted by place -> read into the cache -> visit
//!                                            (adjacent ones with one read)
//! ```
//!
//! Invariant: read-ahead uses at most three quarters of the cache. A wrong guess costs only time:
//! the caller reads each chunk itself and gets its error.

use super::cache::DecodedRegion;
use super::{Approach, ChunkRef, Reader, Route};
use chunk_store::Result;
use chunk_store::container::{Copies, RUN_BYTES_MAX, ReadBy, RegionPlace};
use format::container::{SECTOR_BYTES, sectors_max};
use format::recipe::ObjectRoot;
use fragpicker::SEGMENT_BYTES;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Fingerprint;

/// Maximum number of pieces in a segment: some MiB of memory.
const PIECES_MAX: usize = 1 << 16;

/// Longest gap between two regions that is read too, instead of a second read: 128 KiB. A disk with
/// arms would wait for most of a rotation behind a shorter one.
const GAP_SECTORS_MAX: u32 = 256;
/// Maximum length of a run of regions, sectors.
const RUN_SECTORS_MAX: u32 = RUN_BYTES_MAX / SECTOR_BYTES;

const STRAIGHT: Approach = Approach {
    admit: None,
    ahead_bytes: 0,
    is_random: false,
    route: Route::Region,
    shares: true,
    waiting: None,
};

/// Pieces whose regions are read together.
#[derive(Default)]
struct Segment {
    /// Offset, length and chunk of each piece.
    pieces: Vec<(u64, u64, Fingerprint)>,
    /// Expected regions: one chunk of each, and its stored bytes.
    regions: BTreeMap<RegionPlace, (Fingerprint, u64)>,
    /// One chunk of each region that is already in memory.
    present: Vec<(Fingerprint, ChunkRef)>,
    /// Length of the pieces, bytes.
    bytes: u64,
    /// Stored size of the expected regions, bytes.
    stored_bytes: u64,
}

/// Ratio between the memory and the stored size of regions, from those that were read.
#[derive(Clone, Copy)]
struct Growth {
    raw: u64,
    stored: u64,
}

impl Growth {
    fn of(self, stored_bytes: u64) -> u64 {
        let grown =
            u128::from(stored_bytes) * u128::from(self.raw) / u128::from(self.stored.max(1));
        u64::try_from(grown).unwrap_or(u64::MAX)
    }
}

impl Reader {
    /// Like [`Self::visit_pieces`], for callers that then read each piece: the regions of a segment
    /// are in memory when its first piece is visited.
    pub fn visit_pieces_forward(
        &self,
        root: &ObjectRoot,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, u64, Fingerprint) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let room = self.cache.bytes_max() as u64 / 4 * 3;
        let mut growth = Growth { raw: 1, stored: 1 };
        let mut segment = Segment::default();
        let mut is_stopped = false;
        self.visit_pieces(root, from, to, &mut |offset, len, fingerprint| {
            self.expect(&mut segment, len, &fingerprint);
            segment.pieces.push((offset, len, fingerprint));
            let is_full = segment.bytes >= SEGMENT_BYTES
                || segment.pieces.len() >= PIECES_MAX
                || growth.of(segment.stored_bytes) >= room;
            if !is_full {
                return Ok(ControlFlow::Continue(()));
            }
            let flow = self.visit_segment(&mut segment, room, &mut growth, visit)?;
            is_stopped = flow.is_break();
            Ok(flow)
        })?;
        if !is_stopped {
            let _ = self.visit_segment(&mut segment, room, &mut growth, visit)?;
        }
        Ok(())
    }

    fn visit_segment(
        &self,
        segment: &mut Segment,
        room: u64,
        growth: &mut Growth,
        visit: &mut dyn FnMut(u64, u64, Fingerprint) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let segment = std::mem::take(segment);
        self.fetch_in_order(&segment, room, growth);
        for (offset, len, fingerprint) in segment.pieces {
            if visit(offset, len, fingerprint)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Looks up the expected region of a piece in memory. Reads no directory.
    fn expect(&self, segment: &mut Segment, len: u64, fingerprint: &Fingerprint) {
        if fingerprint.is_hole() {
            return;
        }
        segment.bytes += len;
        if let Some(chunk) = self.cache.get(fingerprint) {
            let last = segment.present.last();
            if !last.is_some_and(|(_, last)| last.is_beside(&chunk)) {
                segment.present.push((*fingerprint, chunk));
            }
            return;
        }
        let expected = self.chunks.expected(fingerprint, &mut self.near.lock());
        if let Ok(Some((place, stored_bytes))) = expected
            && segment
                .regions
                .insert(place, (*fingerprint, stored_bytes))
                .is_none()
        {
            segment.stored_bytes += stored_bytes;
        }
    }

    /// Reads the expected regions in order. Failures are ignored: the reader of the chunk gets
    /// them.
    fn fetch_in_order(&self, segment: &Segment, room: u64, growth: &mut Growth) {
        let mut read = 0;
        let regions = segment.regions.iter();
        let regions: Vec<_> = regions
            .map(|(at, (name, bytes))| (*at, *name, *bytes))
            .collect();
        let mut rest = regions.as_slice();
        while read < room {
            let (run, behind) = rest.split_at(run_of(rest, |bytes| growth.of(bytes) * 4 <= room));
            if run.is_empty() {
                break;
            }
            rest = behind;
            self.fetch_run(run);
            for (_, fingerprint, stored_bytes) in run {
                if let Ok(chunk) = self.node(fingerprint, STRAIGHT) {
                    read += chunk.region_bytes();
                    growth.raw += chunk.region_bytes();
                    growth.stored += stored_bytes;
                    // Mark it as used: earlier regions must be evicted first.
                    let _ = self.cache.get(fingerprint);
                }
            }
        }
        // These were the oldest, so the reads may have evicted them.
        for (fingerprint, chunk) in &segment.present {
            if self.cache.get(fingerprint).is_none() {
                self.cache.keep(chunk);
            }
        }
    }

    /// Reads regions of a run into the cache with one read. What fails is left to a reader of that
    /// region alone.
    fn fetch_run(&self, run: &[Expected]) {
        let ([(from, _, _), _, ..], Some((last, _, last_bytes))) = (run, run.last()) else {
            return;
        };
        let sectors = end_of(*last, *last_bytes).saturating_sub(from.sector);
        let mut by = ReadBy {
            copies: Copies::InSystem,
            asks: self.reported.get().is_some(),
            is_from_device: false,
        };
        let regions: Vec<_> = run.iter().map(|(place, _, _)| *place).collect();
        self.read_run(&regions, sectors, &mut by, &mut |number, region| {
            let Some((place, name, stored_bytes)) = run.get(number) else {
                return false;
            };
            let region = Arc::new(DecodedRegion::new(region, *place, *stored_bytes));
            // The index may be wrong.
            if ChunkRef::within(&region, name).is_none() {
                return false;
            }
            count(&self.direct_reads);
            let evicted = self.cache.insert(region);
            evicted
                .into_iter()
                .for_each(|region| self.containers.reuse(region));
            true
        });
    }
}

/// Place of a region, one of its chunks, and about its stored bytes.
type Expected = (RegionPlace, Fingerprint, u64);

/// Returns the first sector behind a region.
fn end_of(place: RegionPlace, stored_bytes: u64) -> u32 {
    let stored_bytes = u32::try_from(stored_bytes).unwrap_or(u32::MAX);
    place.sector.saturating_add(sectors_max(stored_bytes))
}

/// Returns how many of the first regions are read with one read: one, or more in one container
/// without long gaps, if `fits` returns true for their stored size.
fn run_of(regions: &[Expected], fits: impl Fn(u64) -> bool) -> usize {
    let Some((from, _, first_bytes)) = regions.first() else {
        return 0;
    };
    let mut stored = *first_bytes;
    let goes_on = |pair: &&[Expected]| {
        let [(before, _, before_bytes), (place, _, bytes)] = pair else {
            return false;
        };
        let gap = place.sector.saturating_sub(end_of(*before, *before_bytes));
        let span = end_of(*place, *bytes).saturating_sub(from.sector);
        stored += bytes;
        place.container == from.container
            && gap <= GAP_SECTORS_MAX
            && span <= RUN_SECTORS_MAX
            && fits(stored)
    };
    1 + regions.windows(2).take_while(goes_on).count()
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
