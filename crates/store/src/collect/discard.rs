//! Deleting containers from the trash.
//!
//! Invariant: first the old commits that may need them go, durably; then the containers; then, when that is durable,
//! the trash forgets them. A crash anywhere leaves names in the trash whose containers are gone:
//! nobody needs those, and the next run goes on. Called by the collector.

use super::{Basis, Collector, GcStage, is_over};
use crate::catalog::{Edit, TrashedContainer, trash_key};
use crate::container::container_name;
use crate::error::Result;
use crate::pool::{Pool, Purpose};
use crate::write_path::LaneOptions;

/// Containers that one step deletes.
const DELETED_A_STEP: usize = 1024;

impl Collector {
    /// Deletes some of what may go; when nothing is left, goes on to choosing.
    pub(super) fn delete(&mut self, pool: &Pool) -> Result<()> {
        let Some(basis) = &self.basis else {
            return Ok(());
        };
        let may_go = |t: &&TrashedContainer| self.may_go(pool, basis, t);
        let going: Vec<_> = self.trash.iter().filter(may_go).copied().collect();
        let going: Vec<_> = going.into_iter().take(DELETED_A_STEP).collect();
        if going.is_empty() || self.policy.dry_run {
            self.stage = GcStage::Choosing;
        }
        if !self.policy.dry_run && !going.is_empty() {
            pool.forget_roots_below(basis.generation)?;
            delete_containers(pool, &going)?;
        }
        self.counts.containers_deleted += going.len() as u64;
        self.counts.deleted_bytes += going.iter().map(|t| t.entry.blob_bytes).sum::<u64>();
        let is_gone = |t: &TrashedContainer| going.iter().any(|g| g.entry.id == t.entry.id);
        self.trash.retain(|t| !is_gone(t));
        if self.stage == GcStage::Choosing {
            self.counts.containers_in_trash = self.trash.len() as u64;
            self.counts.trash_bytes = self.trash.iter().map(|t| t.entry.blob_bytes).sum();
        }
        Ok(())
    }

    /// Nobody began before it came into the trash, nothing in it is live, and its time is over.
    fn may_go(&self, pool: &Pool, basis: &Basis, trashed: &TrashedContainer) -> bool {
        basis.held.is_none_or(|held| held >= trashed.since.by)
            && self.marking.live.of(trashed.entry.id).is_none()
            && is_over(pool, trashed.since.at, self.policy.reader_period_ns)
    }
}

fn delete_containers(pool: &Pool, going: &[TrashedContainer]) -> Result<()> {
    for TrashedContainer { entry, .. } in going {
        let quarantine = &pool.chunks().quarantine;
        quarantine.retired.note_going(entry.id);
        pool.delete_blob(&container_name(entry.id))?;
        quarantine.forget(entry.id);
    }
    let session = pool.begin_for(Purpose::Collect, LaneOptions::metadata())?;
    pool.commit_with(Purpose::Collect, |mut base| {
        let mut edits = Vec::new();
        for TrashedContainer { entry, .. } in going {
            edits.push(Edit {
                key: trash_key(entry.id),
                value: None,
            });
            let counted = u64::from(entry.blob_bytes > 0);
            base.record.containers = base.record.containers.saturating_sub(counted);
            let left = base.record.stored_bytes.saturating_sub(entry.blob_bytes);
            base.record.stored_bytes = left;
        }
        session.commit(base, edits, 0)
    })
    .map(drop)
}
