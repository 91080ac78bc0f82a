//! Estimates the device reads of a step. The defragmenter's stages use it.
//!
//! Invariant: concurrent reads of others count too, so they make a step shorter and never longer.

use store::Pool;

/// Size of an index bucket.
const PROBE_BYTES: u64 = 4 << 10;
/// Estimated size of a container's directory or a region: 16 KiB for volumes, less than 128 KiB for
/// streams.
const REGION_BYTES: u64 = 32 << 10;

/// See the module's head.
pub struct StepBudget<'a> {
    pool: &'a Pool,
    before: u64,
    budget_bytes: u64,
}

impl<'a> StepBudget<'a> {
    /// Begins to measure a step.
    pub fn begin(pool: &'a Pool, budget_bytes: u64) -> Self {
        Self {
            pool,
            before: read_bytes(pool),
            budget_bytes,
        }
    }

    /// Returns true if the budget is used up.
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
