//! Findings about a server's pool, cached for the metrics, which call this.
//!
//! Invariant: the catalog is read at most once per commit and per minute, however often metrics are
//! requested. A change of the failures or of the quarantine in memory also ends the cached result.

use super::{Finding, FindingsInput, Limits, LiveFacts, SourceState, VERIFY_WITHIN_S, sources};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Pool;
use units::Generation;

/// Maximum age of a cached result. Findings that depend on the time change no faster.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The cached result.
#[derive(Default)]
pub struct FindingsCache(Mutex<Option<Last>>);

struct Last {
    generation: Generation,
    /// Failures, refused rules and number of quarantined regions at that time.
    live: (Vec<String>, Option<String>, usize),
    at: Instant,
    found: Arc<PoolFindings>,
}

/// Result of an examination.
pub struct PoolFindings {
    /// The findings that `status` would show.
    pub findings: Vec<Finding>,
    /// The newest snapshot of each source.
    pub sources: Vec<SourceState>,
}

impl FindingsCache {
    /// Returns the findings of `status` and the newest snapshot of each source. `within_s` is
    /// the time in which a scrub verifies everything, seconds.
    pub fn read(&self, pool: &Pool, server: LiveFacts<'_>, within_s: u64) -> Arc<PoolFindings> {
        let generation = pool.generation();
        let live = (
            server.failing.clone(),
            server.iscsi_access.clone(),
            pool.health().quarantined().len(),
        );
        let mut last = self.0.lock();
        if let Some(last) = &*last
            && last.generation == generation
            && last.live == live
            && last.at.elapsed() < LOOK_EVERY
        {
            return Arc::clone(&last.found);
        }
        let (snapshots, hidden) = match pool.snapshots_readable() {
            Ok((snapshots, hidden)) => (snapshots, hidden.map(|e| e.to_string())),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        let look = FindingsInput {
            pool,
            server: Some(server),
            snapshots: &snapshots,
            hidden: hidden.as_deref(),
            now: pool.now(),
            limits: Limits {
                verify_within_s: VERIFY_WITHIN_S.max(within_s.saturating_add(within_s / 2)),
            },
        };
        let found = Arc::new(PoolFindings {
            findings: look.findings(),
            sources: sources(&look),
        });
        *last = Some(Last {
            generation,
            live,
            at: Instant::now(),
            found: Arc::clone(&found),
        });
        found
    }
}
