//! Decoded directories of containers, and the few that one thread asks first. The chunk map calls
//! this.
//!
//! Invariant: every returned place was in a verified directory.

use super::{FingerprintMap, Quarantine};
use crate::container::RegionPlace;
use format::container::{ContainerClass, Directory};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Number of directories that one lane asks first.
const NEAR_MAX: usize = 4;

/// A directory, ready for lookups.
pub struct LoadedDirectory {
    /// Its container.
    pub container: ContainerId,
    /// Kind of the container's contents.
    pub class: ContainerClass,
    /// Sector, stored bytes and number of the first chunk of each region.
    pub regions: Vec<(u32, u32, u32)>,
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
            regions.push((region.sector, region.stored_bytes, number));
            for (fingerprint, len) in &region.chunks {
                chunks.insert(*fingerprint, (number, *len));
                number += 1;
                plain_bytes += u64::from(*len);
            }
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
        let after = self
            .regions
            .partition_point(|(_, _, first)| first <= number);
        let (sector, stored_bytes, _) = self.regions.get(after.checked_sub(1)?)?;
        Some(ChunkPlace {
            region: RegionPlace {
                container: self.container,
                sector: *sector,
            },
            stored_bytes: *stored_bytes,
            len: *len,
        })
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
        self.chunks.len() * 2 * 44 + self.regions.len() * 8 + 128
    }
}

/// Place of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The region with the chunk.
    pub region: RegionPlace,
    /// Stored bytes of the region, from the directory.
    pub stored_bytes: u32,
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
