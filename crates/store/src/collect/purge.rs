//! Purging: removes forgotten snapshots whose trash period is over from the catalog for good.
//! Garbage collection calls this.
//!
//! Invariant: a snapshot is purged only if no hold is older than the commit that forgot it. One
//! commit purges all of them, or none.

use super::{GcPermit, SnapshotExpiry};
use crate::pool::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::Result;
use chunk_store::catalog::{Edit, Forgotten, forgotten_key};
use units::Generation;

/// Result of a purge or of its estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Number of forgotten snapshots that were purged.
    pub snapshots: u64,
    /// The newest generation that trashed something at a time in the future.
    pub ahead_by: Option<Generation>,
    /// The oldest generation at which a hold kept expired snapshots.
    pub awaited: Option<Generation>,
}

impl Pool {
    /// Purges all expired snapshots. Durable on return. First enters leftovers of dead sessions, so
    /// that garbage collection sees them.
    pub fn purge(&self, _permit: &GcPermit, expiry: &SnapshotExpiry) -> Result<Purged> {
        self.enter_leftovers()?;
        let survey = Survey::of(self, expiry)?;
        let mut purged = survey.purged;
        if purged.snapshots == 0 {
            return Ok(purged);
        }
        let session = self.begin_for(Purpose::Collect, LaneOptions::metadata())?;
        self.commit_collected(self.commits().next_sequence(Purpose::Collect), |base| {
            // A snapshot that was taken back meanwhile is not in this trash any more.
            let (forgotten, _) = self.trash_of(base.record.catalog)?;
            let expired = forgotten.iter().filter(|f| survey.is_expired(self, f));
            let edits: Vec<_> = expired
                .map(|f| Edit {
                    key: forgotten_key(&f.snapshot),
                    value: None,
                })
                .collect();
            purged.snapshots = edits.len() as u64;
            session.commit(base, edits, 0)
        })?;
        Ok(purged)
    }

    /// Returns what [`Pool::purge`] would do now. Changes nothing.
    pub fn estimate_purge(&self, expiry: &SnapshotExpiry) -> Result<Purged> {
        Ok(Survey::of(self, expiry)?.purged)
    }
}

/// The trash at one moment.
struct Survey {
    expiry: SnapshotExpiry,
    /// Only snapshots that this commit has in the trash are purged: later holds have this or a
    /// later generation.
    seen: Generation,
    held: Option<Generation>,
    purged: Purged,
}

impl Survey {
    fn of(pool: &Pool, expiry: &SnapshotExpiry) -> Result<Self> {
        let (seen, _) = pool.commits().newest();
        let (forgotten, containers) = pool.trash()?;
        let now = pool.now();
        let since = forgotten.iter().map(|f| f.since);
        let since = since.chain(containers.iter().map(|c| c.since));
        let ahead = since.filter(|since| since.at > now);
        let mut survey = Self {
            expiry: *expiry,
            seen,
            purged: Purged {
                ahead_by: ahead.map(|since| since.by).max(),
                ..Purged::default()
            },
            // After the generation above was chosen.
            held: pool.held_oldest(),
        };
        let waiting = forgotten
            .iter()
            .filter(|f| expiry.is_over(pool, f.since) && !is_unheld(survey.held, f));
        survey.purged.awaited = waiting.map(|f| f.since.by).min();
        let expired = forgotten.iter().filter(|f| survey.is_expired(pool, f));
        survey.purged.snapshots = expired.count() as u64;
        Ok(survey)
    }

    fn is_expired(&self, pool: &Pool, forgotten: &Forgotten) -> bool {
        forgotten.since.by <= self.seen
            && self.expiry.is_over(pool, forgotten.since)
            && is_unheld(self.held, forgotten)
    }
}

/// Returns true if no hold is older than the commit that forgot the snapshot.
pub(super) fn is_unheld(held: Option<Generation>, forgotten: &Forgotten) -> bool {
    held.is_none_or(|held| held >= forgotten.since.by)
}
