//! What a server finds wrong with its pool, for the metrics.
//!
//! Invariant: the catalog is looked at once for a commit and a minute, however often metrics are asked for; what
//! the server knows without it is always of now. Called by the metrics.

use super::Held;
use crate::findings::{Finding, Limits, Look, SourceState, VERIFY_WITHIN_S, sources};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::Generation;

/// Findings that depend on the time change no faster.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The last look.
#[derive(Default)]
pub(super) struct LastFindings(Mutex<Option<Last>>);

struct Last {
    generation: Generation,
    /// What was failing, and what was set aside, then.
    live: (Vec<String>, usize),
    at: Instant,
    found: Arc<Found>,
}

/// What a look found.
pub struct Found {
    /// What `status` would find.
    pub findings: Vec<Finding>,
    /// The newest snapshots.
    pub sources: Vec<SourceState>,
}

impl Held {
    /// What `status` would find, and the newest snapshot of each source.
    pub fn findings(&self) -> Arc<Found> {
        let generation = self.pool.generation();
        let live = (self.failing(), self.pool.set_aside().len());
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
        let within_s = self.shares().scrub_within_s;
        let look = Look {
            pool: &self.pool,
            held: Some(self),
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
