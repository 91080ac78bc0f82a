//! Deleting containers from the trash.
//!
//! Invariant: first the old commits that may need them go, durably; then the containers; then, when that is durable,
//! the trash forgets them. A crash anywhere leaves names in the trash whose containers are gone:
//! nobody needs those, and the next run goes on. Called by the collector.

use super::{Collector, GcStage, is_over};
use crate::catalog::{Edit, TrashedContainer, trash_key};
use crate::container::container_name;
use crate::error::Result;
use crate::pool::{Pool, Purpose};
use crate::write_path::LaneOptions;

/// Containers that one commit takes out of the trash.
const DELETED_A_COMMIT: usize = 1024;
/// What deleting any file is worth of a budget of bytes.
const FILE_BYTES: u64 = 4096;

/// Containers between the choice and the commit that takes them out of the trash.
pub(super) struct Leaving {
    rest: Vec<TrashedContainer>,
    gone: Vec<TrashedContainer>,
}

impl Leaving {
    /// Deletes about so many bytes, one container at least: a file system may take a millisecond for each MiB.
    fn delete(&mut self, pool: &Pool, budget_bytes: u64) -> Result<()> {
        let mut bytes = 0;
        while let Some(trashed) = self.rest.pop() {
            let id = trashed.entry.id;
            let quarantine = &pool.chunks().quarantine;
            quarantine.retired.note_going(id);
            pool.delete_blob(&container_name(id))?;
            quarantine.forget(id);
            self.gone.push(trashed);
            bytes += trashed.entry.blob_bytes.max(FILE_BYTES);
            if bytes >= budget_bytes {
                break;
            }
        }
        Ok(())
    }
}

impl Collector {
    /// Deletes some of what may go; when nothing is left, goes on to choosing.
    pub(super) fn delete(&mut self, pool: &Pool, budget_bytes: u64) -> Result<()> {
        if let Some(mut leaving) = self.leaving.take() {
            leaving.delete(pool, budget_bytes)?;
            if leaving.rest.is_empty() {
                take_out(pool, &leaving.gone)?;
                let gone = leaving.gone.iter().map(|t| t.entry.id);
                pool.chunks().index.forget(gone);
                self.count_gone(&leaving.gone);
            } else {
                self.leaving = Some(leaving);
            }
            return Ok(());
        }
        let Some(basis) = &self.basis else {
            return Ok(());
        };
        let (generation, held) = (basis.generation, basis.held);
        let is_unneeded = |t: &&TrashedContainer| self.is_unneeded(pool, t);
        let unneeded: Vec<_> = self.trash.iter().filter(is_unneeded).copied().collect();
        unneeded
            .iter()
            .for_each(|trashed| self.await_end_of(held, trashed.since.by));
        let may_go = |t: &TrashedContainer| held.is_none_or(|held| held >= t.since.by);
        let going = unneeded.into_iter().filter(may_go);
        let going: Vec<_> = going.take(DELETED_A_COMMIT).collect();
        if going.is_empty() || self.policy.dry_run {
            self.count_gone(&going);
            self.counts.containers_in_trash = self.trash.len() as u64;
            self.counts.trash_bytes = self.trash.iter().map(|t| t.entry.blob_bytes).sum();
            self.stage = GcStage::Choosing;
            return Ok(());
        }
        pool.forget_roots_below(generation)?;
        self.leaving = Some(Leaving {
            rest: going,
            gone: Vec::new(),
        });
        Ok(())
    }

    fn count_gone(&mut self, gone: &[TrashedContainer]) {
        self.counts.containers_deleted += gone.len() as u64;
        self.counts.deleted_bytes += gone.iter().map(|t| t.entry.blob_bytes).sum::<u64>();
        let is_gone = |t: &TrashedContainer| gone.iter().any(|g| g.entry.id == t.entry.id);
        self.trash.retain(|t| !is_gone(t));
    }

    /// Nothing in it is live, and its time is over: it goes unless somebody began before it came into the trash.
    fn is_unneeded(&self, pool: &Pool, trashed: &TrashedContainer) -> bool {
        self.marking.live.of(trashed.entry.id).is_none()
            && is_over(
                pool,
                &self.policy,
                trashed.since,
                self.policy.reader_period_ns,
            )
    }
}

/// Takes containers out of the trash that are gone.
fn take_out(pool: &Pool, gone: &[TrashedContainer]) -> Result<()> {
    let session = pool.begin_for(Purpose::Collect, LaneOptions::metadata())?;
    pool.commit_collected(pool.next_sequence(Purpose::Collect), |mut base| {
        let mut edits = Vec::new();
        for TrashedContainer { entry, .. } in gone {
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
