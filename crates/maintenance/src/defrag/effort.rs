//! What a step has taken of the device, about.
//!
//! Invariant: what others read meanwhile counts too, so a step beside them is shorter and never longer. Called by the
//! defragmenter's stages.

use store::Pool;

/// A bucket of the index.
const PROBE_BYTES: u64 = 4 << 10;
/// A container's directory, or a region: 16 KiB of volumes, less than 128 of streams.
const REGION_BYTES: u64 = 32 << 10;

/// See the module's head.
pub struct Effort<'a> {
    pool: &'a Pool,
    before: u64,
    budget_bytes: u64,
}

impl<'a> Effort<'a> {
    /// Of a step that begins now.
    pub fn begin(pool: &'a Pool, budget_bytes: u64) -> Self {
        Self {
            pool,
            before: read_bytes(pool),
            budget_bytes,
        }
    }

    /// True when the step had better end.
    pub fn is_spent(&self) -> bool {
        read_bytes(self.pool).saturating_sub(self.before) >= self.budget_bytes
    }
}

fn read_bytes(pool: &Pool) -> u64 {
    let (lookups, reads) = (pool.lookup_counts(), pool.read_counts());
    let regions = lookups.directory_reads.saturating_add(reads.region_reads);
    let probes = lookups.index_probes.saturating_mul(PROBE_BYTES);
    regions.saturating_mul(REGION_BYTES).saturating_add(probes)
}
