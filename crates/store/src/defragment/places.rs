//! Finds where the bytes of an object are: regions of containers, in the form that FragPicker
//! needs. `maintenance` calls this.
//!
//! Adjacent regions in one container count as one piece: the device reads them at once. The order
//! of chunks within a region costs nothing, because a region is decoded completely.
//!
//! Invariant: the places are those that readers use.

use crate::pool::Pool;
use chunk_store::chunk_map::{ChunkMap, ChunkPlace, FORWARD_WRITERS, Near};
use chunk_store::{Result, StoreError};
use format::container::{SECTOR_BYTES, sectors_max};
use format::recipe::ObjectRoot;
use fragpicker::{Fetch, ObjectLayout, Piece, Spot};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Sectors that a region may touch in its container: the last one may belong to the next region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub container: ContainerId,
    pub first: u32,
    pub end: u32,
}

impl Extent {
    fn of(place: &ChunkPlace) -> Self {
        let first = place.region.sector;
        Self {
            container: place.region.container,
            first,
            end: first.saturating_add(sectors_max(place.stored_bytes)),
        }
    }
}

/// Returns the number of runs of adjacent regions.
pub(super) fn runs(extents: &mut Vec<Extent>) -> u64 {
    extents.sort_unstable();
    extents.dedup();
    let breaks = extents.windows(2).filter(|pair| match pair {
        [first, second] => first.container != second.container || first.end < second.first,
        _ => false,
    });
    breaks.count() as u64 + u64::from(!extents.is_empty())
}

/// Cost of reading a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Length of its chunks without holes, bytes.
    pub bytes: u64,
    /// Number of their regions.
    pub regions: u64,
    /// Number of runs of adjacent regions: the minimum of device reads.
    pub runs: u64,
}

/// Looks chunks up. Chunks of one object should come in order.
pub(super) struct Finder {
    chunks: Arc<ChunkMap>,
    near: RefCell<Near>,
}

impl Finder {
    pub fn new(pool: &Pool) -> Self {
        Self {
            chunks: Arc::clone(pool.chunks()),
            near: RefCell::default(),
        }
    }

    /// Returns the region of a chunk, or `None` if the chunk is nowhere.
    pub fn find(&self, fingerprint: &Fingerprint) -> Result<Option<Extent>> {
        Ok(self.locate(fingerprint)?.as_ref().map(Extent::of))
    }

    fn locate(&self, fingerprint: &Fingerprint) -> Result<Option<ChunkPlace>> {
        self.chunks.locate(fingerprint, &mut self.near.borrow_mut())
    }
}

/// Offset, length, name and region of a chunk.
type Found = (u64, u64, Fingerprint, Extent);

/// A chunk of so many may have been copied out of the regions of its neighbours.
const OUTSIDE_PART: usize = 4;

impl Finder {
    /// Hot chunks are copied out of large regions, and their old copies stay there until gc comes:
    /// a reader of the neighbours decodes them anyway. So few such chunks count as if they were
    /// still there. More are a copy of their own that readers go to.
    fn stay_with_neighbours(&self, found: &mut [Found]) {
        let regions: BTreeSet<Extent> = found.iter().map(|(_, _, _, extent)| *extent).collect();
        let containers: BTreeSet<ContainerId> = regions.iter().map(|r| r.container).collect();
        if containers.len() < 2 {
            return;
        }
        let directories: Vec<_> = containers
            .iter()
            .filter_map(|id| self.chunks.directory_in_memory(*id))
            .collect();
        let is_forward = |id: ContainerId| FORWARD_WRITERS.contains(&id.writer());
        let mut outside = Vec::new();
        for (nth, (_, _, name, extent)) in found.iter().enumerate() {
            if !is_forward(extent.container) {
                continue;
            }
            let others = directories
                .iter()
                .filter(|d| d.container != extent.container);
            let old = others.filter_map(|d| d.find(name)).map(|p| Extent::of(&p));
            if let Some(old) = old.into_iter().find(|old| regions.contains(old)) {
                outside.push((nth, old));
            }
        }
        if outside.len() * OUTSIDE_PART > found.len() {
            return;
        }
        for (nth, old) in outside {
            if let Some((_, _, _, extent)) = found.get_mut(nth) {
                *extent = old;
            }
        }
    }
}

/// See the module's head.
pub struct Places<'a> {
    pool: &'a Pool,
    container_bytes: u64,
    objects: &'a BTreeMap<u64, ObjectRoot>,
    finder: Finder,
    /// Ranges of objects that do not count, ascending.
    without: Option<&'a BTreeMap<u64, Vec<Range<u64>>>>,
    /// Regions of the pieces returned last: the upper bits of a place are an index into it.
    extents: RefCell<Vec<Extent>>,
    /// Length of these pieces within the requested range, bytes.
    bytes: Cell<u64>,
}

/// Number of bits of a place for the offset in its region.
const OFFSET_BITS: u32 = 44;

impl<'a> Places<'a> {
    /// Creates places for these objects. A container of copies is closed at `container_bytes`.
    pub fn new(
        pool: &'a Pool,
        objects: &'a BTreeMap<u64, ObjectRoot>,
        container_bytes: usize,
    ) -> Self {
        Self {
            pool,
            container_bytes: (container_bytes as u64).max(1),
            objects,
            finder: Finder::new(pool),
            without: None,
            extents: RefCell::default(),
            bytes: Cell::default(),
        }
    }

    /// Chunks in these ranges of objects, ascending, do not count beside others: they lie elsewhere
    /// on purpose.
    pub fn without(mut self, ranges: &'a BTreeMap<u64, Vec<Range<u64>>>) -> Self {
        self.without = Some(ranges);
        self
    }

    fn counts(&self, object: u64, offset: u64) -> bool {
        let ranges = self.without.and_then(|ranges| ranges.get(&object));
        ranges.is_none_or(|ranges| {
            let next = ranges.partition_point(|range| range.end <= offset);
            ranges.get(next).is_none_or(|range| offset < range.start)
        })
    }

    fn root(&self, object: u64) -> Result<ObjectRoot> {
        let root = self.objects.get(&object).copied();
        root.ok_or_else(|| StoreError::corruption("object", object, "missing in its container"))
    }

    /// Returns the cost of reading a range now.
    pub fn cost(&self, object: u64, range: Range<u64>) -> Result<Cost> {
        self.pieces(object, range)?;
        Ok(self.cost_of_last())
    }

    /// Returns the cost of the range whose pieces were returned last.
    pub fn cost_of_last(&self) -> Cost {
        let mut extents = self.extents.borrow().clone();
        let runs = runs(&mut extents);
        Cost {
            bytes: self.bytes.get(),
            regions: extents.len() as u64,
            runs,
        }
    }

    /// Looks up the chunks of a range until `is_enough` returns true, so that the directories are
    /// in memory for the next caller. Returns where it stopped.
    pub fn prepare(
        &self,
        object: u64,
        range: Range<u64>,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<u64> {
        let root = self.root(object)?;
        let mut reached = range.end;
        let visit = &mut |offset: u64, len: u64, chunk: Fingerprint| {
            if !chunk.is_hole() {
                self.finder.find(&chunk)?;
            }
            Ok(match is_enough() {
                true => {
                    reached = offset.saturating_add(len).min(range.end);
                    ControlFlow::Break(())
                }
                false => ControlFlow::Continue(()),
            })
        };
        let reader = self.pool.reader();
        reader.visit_pieces(&root, range.start, range.end, visit)?;
        Ok(reached)
    }

    /// Returns true if these ranges are in no more runs of adjacent regions than necessary.
    pub fn are_together(&self, object: u64, parts: &[Range<u64>]) -> Result<bool> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for part in parts {
            self.pieces(object, part.clone())?;
            all.extend(self.extents.borrow().iter().copied());
            bytes += self.bytes.get();
        }
        Ok(runs(&mut all) <= self.pieces_needed(bytes))
    }

    /// Returns the chunks of a range and their places, without holes. Fails with `Corruption` if a
    /// chunk is nowhere.
    pub fn spots(&self, object: u64, range: Range<u64>) -> Result<Vec<Spot>> {
        let root = self.root(object)?;
        let mut spots = Vec::new();
        let visit = &mut |offset, len, chunk: Fingerprint| {
            if !chunk.is_hole() {
                let extent = self.place_of(&chunk)?;
                spots.push(Spot {
                    offset,
                    len,
                    container: extent.container.0,
                    from: u64::from(extent.first) * u64::from(SECTOR_BYTES),
                    to: u64::from(extent.end) * u64::from(SECTOR_BYTES),
                });
            }
            Ok(ControlFlow::Continue(()))
        };
        let reader = self.pool.reader();
        reader.visit_pieces(&root, range.start, range.end, visit)?;
        Ok(spots)
    }

    /// Returns what reading each chunk of a range costs if it is not in memory: offset, length and
    /// cost. Without holes. Fails with `Corruption` if a chunk is nowhere.
    pub fn fetches(&self, object: u64, range: Range<u64>) -> Result<Vec<(u64, u64, Fetch)>> {
        let root = self.root(object)?;
        let mut fetches = Vec::new();
        let visit = &mut |offset, len, chunk: Fingerprint| {
            if !chunk.is_hole() {
                let place = self.finder.locate(&chunk)?;
                let place = place.ok_or_else(|| nowhere(&chunk))?;
                let sectors = u64::from(sectors_max(place.stored_bytes));
                let fetch = Fetch {
                    stored_bytes: sectors * u64::from(SECTOR_BYTES),
                    plain_bytes: place.plain_bytes.into(),
                    chunk_bytes: place.len.into(),
                };
                fetches.push((offset, len, fetch));
            }
            Ok(ControlFlow::Continue(()))
        };
        let reader = self.pool.reader();
        reader.visit_pieces(&root, range.start, range.end, visit)?;
        Ok(fetches)
    }

    fn place_of(&self, chunk: &Fingerprint) -> Result<Extent> {
        self.finder.find(chunk)?.ok_or_else(|| nowhere(chunk))
    }

    /// Returns the length of a range of an object without holes, bytes.
    pub fn mapped_bytes(&self, object: u64, range: Range<u64>) -> Result<u64> {
        let root = self.root(object)?;
        let Range { start, end } = range;
        let mut bytes = 0;
        let visit = &mut |offset: u64, len: u64, chunk: Fingerprint| {
            let len = offset.saturating_add(len).min(end) - offset.max(start);
            bytes += if chunk.is_hole() { 0 } else { len };
            Ok(ControlFlow::Continue(()))
        };
        self.pool.reader().visit_pieces(&root, start, end, visit)?;
        Ok(bytes)
    }
}

fn nowhere(chunk: &Fingerprint) -> StoreError {
    StoreError::corruption("chunk", chunk, "needed, and in no readable container")
}

impl ObjectLayout for Places<'_> {
    type Error = StoreError;

    fn size(&self, object: u64) -> Result<u64> {
        Ok(self.root(object)?.len)
    }

    fn pieces(&self, object: u64, range: Range<u64>) -> Result<Vec<Piece>> {
        let root = self.root(object)?;
        let mut extents = self.extents.borrow_mut();
        extents.clear();
        self.bytes.set(0);
        let mut found = Vec::new();
        let reader = self.pool.reader();
        reader.visit_pieces(&root, range.start, range.end, &mut |offset, len, chunk| {
            if !chunk.is_hole() {
                found.push((offset, len, chunk, self.place_of(&chunk)?));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // A range that has no others is read for its own sake.
        if found
            .iter()
            .any(|(offset, ..)| self.counts(object, *offset))
        {
            found.retain(|(offset, ..)| self.counts(object, *offset));
        }
        self.finder.stay_with_neighbours(&mut found);
        let mut pieces: Vec<Piece> = Vec::new();
        for (offset, len, _, extent) in found {
            let (start, end) = (offset.max(range.start), (offset + len).min(range.end));
            self.bytes.set(self.bytes.get() + end.saturating_sub(start));
            if let Some(last) = pieces.last_mut()
                && extents.last() == Some(&extent)
                && last.offset + last.len == offset
            {
                last.len += len;
                continue;
            }
            pieces.push(Piece {
                offset,
                len,
                place: (extents.len() as u64) << OFFSET_BITS,
                is_shared: false,
            });
            extents.push(extent);
        }
        Ok(pieces)
    }

    fn fragments(&self, pieces: &[Piece]) -> u64 {
        let extents = self.extents.borrow();
        let numbers = pieces.iter().map(|p| (p.place >> OFFSET_BITS) as usize);
        runs(&mut numbers.filter_map(|n| extents.get(n).copied()).collect())
    }

    fn pieces_needed(&self, len: u64) -> u64 {
        1 + len / self.container_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_regions_are_one_run_whatever_the_order() {
        let at = |container, first, end| Extent {
            container: ContainerId(container),
            first,
            end,
        };
        assert_eq!(runs(&mut vec![]), 0);
        let mut extents = vec![at(1, 20, 30), at(1, 10, 20), at(1, 20, 30), at(1, 30, 31)];
        assert_eq!(runs(&mut extents), 1);
        assert_eq!(runs(&mut vec![at(1, 10, 20), at(2, 20, 30)]), 2);
        assert_eq!(runs(&mut vec![at(1, 10, 20), at(1, 21, 30)]), 2);
    }
}
