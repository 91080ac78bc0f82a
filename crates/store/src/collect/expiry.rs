//! Computes how long entries stay in the trash. Garbage collection calls this.
//!
//! Invariant: no caller can purge a snapshot before the pool's minimum trash period is over. Time
//! only delays: an expired entry still needs proof that nothing uses it.

use crate::pool::Pool;
use chunk_store::{Result, catalog::Discarded};

const SECOND_NS: i64 = 1_000_000_000;

/// The period for which trashed containers stay.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    period_ns: i64,
    ahead: Option<Discarded>,
}

/// The period for which forgotten snapshots stay: never shorter than the pool's minimum.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotExpiry(Expiry);

impl Expiry {
    /// `ahead` is the last sighting by an earlier run of trash entries whose time is in the future:
    /// these entries count from that sighting.
    pub fn new(period_ns: i64, ahead: Option<Discarded>) -> Self {
        Self { period_ns, ahead }
    }

    /// Returns true if the period that began with `since` is over.
    pub fn is_over(&self, pool: &Pool, since: Discarded) -> bool {
        let now = pool.now();
        let since = since.reckoned(now, self.ahead).unwrap_or(now);
        now.0 >= since.0.saturating_add(self.period_ns)
    }
}

impl SnapshotExpiry {
    /// Like [`Expiry::new`], for forgotten snapshots. A period below the pool's minimum is raised
    /// to it.
    pub fn new(pool: &Pool, period_ns: i64, ahead: Option<Discarded>) -> Result<Self> {
        let seconds = i64::try_from(pool.trash_minimum()?.seconds).unwrap_or(i64::MAX);
        let minimum_ns = seconds.saturating_mul(SECOND_NS);
        Ok(Self(Expiry::new(period_ns.max(minimum_ns), ahead)))
    }

    pub(super) fn is_over(&self, pool: &Pool, since: Discarded) -> bool {
        self.0.is_over(pool, since)
    }
}
