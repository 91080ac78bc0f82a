//! Decoded directories of containers, and the few that one thread asks first. The chunk map calls
//! this.
//!
//! Invariant: every returned place was in a verified directory.

use super::{FingerprintMap, Quarantine};
use crate::container::{NEEDED_RUN_BYTES_MAX, RUN_BYTES_MAX, RegionPlace};
use format::container::{ContainerClass, Directory, SECTOR_BYTES, may_follow};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Number of directories that one lane asks first.
const NEAR_MAX: usize = 4;

/// Number of an object's next chunks that tell whether it lies here in one piece.
const LOOKED_UP_FIRST: usize = 8;

#[derive(Clone, Copy)]
struct LoadedRegion {
    sector: u32,
    stored_bytes: u32,
    /// Number of its first chunk.
    first: u32,
    /// Length of its chunks, bytes.
    plain_bytes: u32,
}

/// A directory, ready for lookups.
pub struct LoadedDirectory {
    /// Its container.
    pub container: ContainerId,
    /// Kind of the container's contents.
    pub class: ContainerClass,
    regions: Vec<LoadedRegion>,
    /// By fingerprint: number in the container, and length.
    chunks: FingerprintMap<(u32, u32)>,
    count: u32,
    /// Total length of all its chunks, bytes.
    pub plain_bytes: u64,
}

impl LoadedDirectory {
    /// Builds the lookup tables of a directory.
    pub fn new(container: ContainerId, class: ContainerClass, directory: &Directory) -> Self {
        let mut chunks = FingerprintMap::default();
        chunks.reserve(directory.chunk_count());
        let mut regions = Vec::with_capacity(directory.regions.len());
        let (mut number, mut plain_bytes) = (0, 0);
        for region in &directory.regions {
            let mut loaded = LoadedRegion {
                sector: region.sector,
                stored_bytes: region.stored_bytes,
                first: number,
                plain_bytes: 0,
            };
            for (fingerprint, len) in &region.chunks {
                chunks.insert(*fingerprint, (number, *len));
                number += 1;
                loaded.plain_bytes = loaded.plain_bytes.saturating_add(*len);
            }
            plain_bytes += u64::from(loaded.plain_bytes);
            regions.push(loaded);
        }
        Self {
            container,
            class,
            regions,
            chunks,
            count: number,
            plain_bytes,
        }
    }

    /// Returns the place of a chunk in this container.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<ChunkPlace> {
        let (number, len) = self.chunks.get(fingerprint)?;
        let region = self.regions.get(self.region_of(*number)?)?;
        Some(ChunkPlace {
            region: RegionPlace {
                container: self.container,
                sector: region.sector,
            },
            stored_bytes: region.stored_bytes,
            plain_bytes: region.plain_bytes,
            len: *len,
        })
    }

    /// Returns places and stored bytes of adjacent regions from the one that begins in `sector`:
    /// that one, and those behind it of which `plain_bytes` of chunks need all. Together they are
    /// at most `RUN_BYTES_MAX` long. Empty if no region begins there.
    pub fn run(&self, sector: u32, plain_bytes: u64) -> Vec<(RegionPlace, u32)> {
        let mut plain = 0u64;
        self.run_while(sector, RUN_BYTES_MAX, |_, region| {
            plain = plain.saturating_add(region.plain_bytes.into());
            plain <= plain_bytes
        })
    }

    /// Like [`Self::run`], with those behind it that have one of the chunks, of which the first
    /// ones come first in an object. If this container has only one of those, the others are not
    /// looked up: where an object is in pieces, that would cost more than it brings.
    pub fn needed_run(&self, sector: u32, chunks: &[Fingerprint]) -> Vec<(RegionPlace, u32)> {
        let mut is_needed = vec![false; self.regions.len()];
        let has = |fingerprint: &&Fingerprint| self.number(fingerprint).is_some();
        let together = chunks.iter().take(LOOKED_UP_FIRST).filter(has).count() > 1;
        for fingerprint in chunks.iter().filter(|_| together) {
            let number = self.number(fingerprint);
            let region = number.and_then(|number| self.region_of(number));
            if let Some(region) = region.and_then(|n| is_needed.get_mut(n)) {
                *region = true;
            }
        }
        self.run_while(sector, NEEDED_RUN_BYTES_MAX, |number, _| {
            is_needed.get(number) == Some(&true)
        })
    }

    /// Returns the region that begins in `sector`, and those behind it as long as `goes_on` returns
    /// true and they are at most `bytes_max` long. It is called with the number of each.
    fn run_while(
        &self,
        sector: u32,
        bytes_max: u32,
        mut goes_on: impl FnMut(usize, &LoadedRegion) -> bool,
    ) -> Vec<(RegionPlace, u32)> {
        let start = self.regions.partition_point(|r| r.sector < sector);
        let mut run: Vec<(RegionPlace, u32)> = Vec::new();
        for (number, region) in self.regions.iter().enumerate().skip(start) {
            let is_wanted = goes_on(number, region);
            let goes_on = match run.last() {
                None => region.sector == sector,
                Some((last, stored)) => {
                    let start = region.sector.saturating_sub(sector);
                    let start = start.saturating_mul(SECTOR_BYTES);
                    is_wanted
                        && may_follow(last.sector, *stored, region.sector)
                        && start.saturating_add(region.stored_bytes) <= bytes_max
                }
            };
            if !goes_on {
                break;
            }
            let place = RegionPlace {
                container: self.container,
                sector: region.sector,
            };
            run.push((place, region.stored_bytes));
        }
        run
    }

    /// Returns the number of the region that has the chunk with this number.
    fn region_of(&self, number: u32) -> Option<usize> {
        let after = self.regions.partition_point(|r| r.first <= number);
        after.checked_sub(1)
    }

    /// Returns the number of chunks in the container. Chunk numbers are below it.
    pub fn chunk_count(&self) -> usize {
        self.count as usize
    }

    /// Returns the number of a chunk in this container, in the order of regions and chunks.
    pub fn number(&self, fingerprint: &Fingerprint) -> Option<u32> {
        self.chunks.get(fingerprint).map(|(number, _)| *number)
    }

    /// Visits all its chunks in no order: fingerprint, number, length.
    pub fn each(&self, visit: &mut dyn FnMut(&Fingerprint, u32, u32)) {
        let mut chunks = self.chunks.iter();
        chunks
            .by_ref()
            .for_each(|(f, (number, len))| visit(f, *number, *len));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Hash tables keep 1/8 to 9/16 free, so twice the entry is an upper bound.
        self.chunks.len() * 2 * 44 + self.regions.len() * size_of::<LoadedRegion>() + 128
    }
}

/// Place of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The region with the chunk.
    pub region: RegionPlace,
    /// Stored bytes of the region, from the directory.
    pub stored_bytes: u32,
    /// Length of all chunks of the region, bytes.
    pub plain_bytes: u32,
    /// Length of the chunk, bytes.
    pub len: u32,
}

/// The last directories in which one thread found a chunk: duplicates come in runs.
#[derive(Default)]
pub struct Near(Vec<Arc<LoadedDirectory>>);

impl Near {
    pub(super) fn keep(&mut self, directory: Arc<LoadedDirectory>) {
        self.0.insert(0, directory);
        self.0.truncate(NEAR_MAX);
    }

    /// Returns a place of the chunk in one of them, outside of quarantine. That directory is asked
    /// first next time.
    pub(super) fn find(
        &mut self,
        fingerprint: &Fingerprint,
        without: &Quarantine,
    ) -> Option<ChunkPlace> {
        let sound = |d: &LoadedDirectory| d.find(fingerprint).filter(|p| !without.holds(p.region));
        let mut directories = self.0.iter().enumerate();
        let (at, place) = directories.find_map(|(at, d)| Some((at, sound(d)?)))?;
        self.0.swap(0, at);
        Some(place)
    }
}
