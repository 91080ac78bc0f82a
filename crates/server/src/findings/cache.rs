//! Findings about a server's pool, cached for the metrics, which call this.
//!
//! Invariant: the catalog is read at most once per commit and per minute, however often metrics are
//! requested. A change of the failures or of the quarantine in memory also ends the cached result.

use super::ServerState;
use crate::findings::{Finding, Limits, Look, SourceState, VERIFY_WITHIN_S, sources};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::Generation;

/// Maximum age of a cached result. Findings that depend on the time change no faster.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The cached result.
#[derive(Default)]
pub(super) struct LastFindings(Mutex<Option<Last>>);

struct Last {
    generation: Generation,
    /// Failures and number of quarantined regions at that time.
    live: (Vec<String>, usize),
    at: Instant,
    found: Arc<Found>,
}

/// Result of an examination.
pub struct Found {
    /// The findings that `status` would show.
    pub findings: Vec<Finding>,
    /// The newest snapshot of each source.
    pub sources: Vec<SourceState>,
}

impl ServerState {
    /// Returns the findings of `status` and the newest snapshot of each source.
    pub fn findings(&self) -> Arc<Found> {
        let generation = self.pool.generation();
        let live = (self.failing(), self.pool.quarantined().len());
        let mut last = self.findings.0.lock();
        if let Some(last) = &*last
            && last.generation == generation
            && last.live == live
            && last.at.elapsed() < LOOK_EVERY
        {
            return Arc::clone(&last.found);
        }
        let (snapshots, hidden) = match self.pool.snapshots_readable() {
            Ok((snapshots, hidden)) => (snapshots, hidden.map(|e| e.to_string())),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        let within_s = self.shares().within.scrub_s;
        let look = Look {
            pool: &self.pool,
            server: Some(self),
            snapshots: &snapshots,
            hidden: hidden.as_deref(),
            now: self.pool.now(),
            limits: Limits {
                verify_within_s: VERIFY_WITHIN_S.max(within_s.saturating_add(within_s / 2)),
            },
        };
        let found = Arc::new(Found {
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
