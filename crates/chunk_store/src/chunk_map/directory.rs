//! Directories of containers in memory, and those that one thread asks first.
//!
//! Invariant: what is told was in a verified directory. Called by the chunk map.

use super::{FingerprintMap, Quarantine};
use crate::container::RegionPlace;
use format::container::{ContainerClass, Directory};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Directories that one lane asks first.
const NEAR_MAX: usize = 4;

/// A directory, ready for look-ups.
pub struct LoadedDirectory {
    /// Whose it is.
    pub container: ContainerId,
    /// What that holds.
    pub class: ContainerClass,
    /// Sector, stored bytes and number of the first chunk of each region.
    pub regions: Vec<(u32, u32, u32)>,
    /// Number in the container, and length.
    chunks: FingerprintMap<(u32, u32)>,
    count: u32,
    /// Bytes of all its chunks.
    pub plain_bytes: u64,
}

impl LoadedDirectory {
    /// Takes a directory apart: look-ups are by fingerprint.
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

    /// Where the chunk lies in this container.
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

    /// Chunks of the container: numbers are below.
    pub fn chunk_count(&self) -> usize {
        self.count as usize
    }

    /// Number of the chunk in this container, in the order of regions and chunks.
    pub fn number(&self, fingerprint: &Fingerprint) -> Option<u32> {
        self.chunks.get(fingerprint).map(|(number, _)| *number)
    }

    /// All its chunks in no order: fingerprint, number, length.
    pub fn each(&self, visit: &mut dyn FnMut(&Fingerprint, u32, u32)) {
        let mut chunks = self.chunks.iter();
        chunks
            .by_ref()
            .for_each(|(f, (number, len))| visit(f, *number, *len));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Hash tables keep 1/8 to 9/16 free: twice the entry is an upper bound.
        self.chunks.len() * 2 * 44 + self.regions.len() * 8 + 128
    }
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The region that holds it.
    pub region: RegionPlace,
    /// Stored bytes of the region, as the directory says.
    pub stored_bytes: u32,
    /// Plain bytes of the chunk.
    pub len: u32,
}

/// The last directories that one thread found something in: streams repeat in runs.
#[derive(Default)]
pub struct Near(Vec<Arc<LoadedDirectory>>);

impl Near {
    pub(super) fn keep(&mut self, directory: Arc<LoadedDirectory>) {
        self.0.insert(0, directory);
        self.0.truncate(NEAR_MAX);
    }

    /// Where one of them holds the chunk and it is not set aside; that one is asked first next time.
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
