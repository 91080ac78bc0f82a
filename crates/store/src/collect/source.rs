//! Containers to copy, their live regions, and counts of copies. `copy` and `segment` use this.
//!
//! Invariant: no I/O.

use super::region::SourceRegion;
use crate::space::LiveMap;
use chunk_store::container::{Contents, RegionPlace};
use units::ContainerId;

/// Counts of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Chunks copied.
    pub chunks: u64,
    /// Their length, bytes.
    pub bytes: u64,
    /// Part of `bytes` that was in memory.
    pub cached_bytes: u64,
    /// Part of `bytes` that was copied in the stored form, without compressing again.
    pub as_stored_bytes: u64,
    /// Containers that stay because they cannot be read completely.
    pub containers_kept_back: u64,
}

/// A container that will be copied.
pub(super) struct Candidate {
    pub id: ContainerId,
    /// Length of its live chunks, bytes.
    pub live_bytes: u64,
}

/// Returns the regions of a container that have live chunks.
pub(super) fn live_regions(
    live: &LiveMap,
    id: ContainerId,
    contents: Contents,
) -> Vec<SourceRegion> {
    let mut first = 0;
    let mut found = Vec::new();
    for region in contents.directory.regions {
        let number_of_first = first;
        first += region.chunks.len() as u32;
        let is_live = |n: &usize| {
            let number = number_of_first + *n as u32;
            live.of(id).is_some_and(|live| live.holds(number))
        };
        let wanted: Vec<_> = (0..region.chunks.len()).filter(is_live).collect();
        if !wanted.is_empty() {
            found.push(SourceRegion {
                place: RegionPlace {
                    container: id,
                    sector: region.sector,
                },
                class: contents.class,
                stored_bytes: region.stored_bytes,
                chunks: region.chunks,
                wanted,
            });
        }
    }
    found
}
