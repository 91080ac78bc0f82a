//! Directories of containers in memory, and those that one thread asks first.
//!
//! Invariant: what is told was in a verified directory. Called by the chunk map.

use super::{FingerprintMap, Quarantine};
use crate::container::RegionPlace;
use format::container::Directory;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Directories that one lane asks first.
const NEAR_MAX: usize = 4;

/// A directory, ready for look-ups.
pub(crate) struct LoadedDirectory {
    pub container: ContainerId,
    /// Sector and stored bytes of each region.
    pub regions: Vec<(u32, u32)>,
    chunks: FingerprintMap<(u16, u32)>,
}

impl LoadedDirectory {
    pub fn new(container: ContainerId, directory: &Directory) -> Self {
        let mut chunks = FingerprintMap::default();
        chunks.reserve(directory.chunk_count());
        for (number, region) in (0u16..).zip(&directory.regions) {
            for (fingerprint, len) in &region.chunks {
                chunks.insert(*fingerprint, (number, *len));
            }
        }
        let regions = directory
            .regions
            .iter()
            .map(|r| (r.sector, r.stored_bytes))
            .collect();
        Self {
            container,
            regions,
            chunks,
        }
    }

    /// Where the chunk lies in this container.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<ChunkPlace> {
        let (region, len) = self.chunks.get(fingerprint)?;
        let (sector, stored_bytes) = self.regions.get(usize::from(*region))?;
        Some(ChunkPlace {
            region: RegionPlace {
                container: self.container,
                sector: *sector,
            },
            stored_bytes: *stored_bytes,
            len: *len,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Hash tables keep 1/8 to 9/16 free: twice the entry is an upper bound.
        self.chunks.len() * 2 * 44 + self.regions.len() * 8 + 128
    }
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    pub region: RegionPlace,
    pub stored_bytes: u32,
    pub len: u32,
}

/// The last directories that one thread found something in: streams repeat in runs.
#[derive(Default)]
pub(crate) struct Near(Vec<Arc<LoadedDirectory>>);

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
