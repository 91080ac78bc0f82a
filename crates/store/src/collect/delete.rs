//! Deletes containers from the trash. Garbage collection calls this.
//!
//! ```text
//! remove old roots, barrier -> delete containers -> commit without their trash entries
//! ```
//!
//! Invariant: a container is deleted only if no hold is older than the commit that trashed it
//! (`pool::holds`), and if a mark that began after that commit found nothing live in it. First the
//! old commits that may need it are removed, durably; then the containers are deleted; then, after
//! a barrier, their trash entries are. After a crash in between, the trash lists deleted containers
//! that nothing needs, and the next run continues.

use super::mark::Mark;
use super::{Expiry, GcPermit, GcStep};
use crate::pool::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::Result;
use chunk_store::catalog::{Edit, TrashedContainer, trash_key};
use chunk_store::container::container_name;
use units::Generation;

/// Share of the byte budget that the deletion of any file costs, bytes.
const FILE_BYTES: u64 = 4096;

/// Maximum number of containers in one deletion: one commit removes their trash entries.
const CONTAINERS_MAX: usize = 1024;

/// Trashed containers that a mark allows to delete; at most as many as one commit takes.
#[derive(Clone, Debug, Default)]
pub struct Deletable {
    containers: Vec<TrashedContainer>,
    awaited: Option<Generation>,
}

impl Deletable {
    /// The containers.
    pub fn containers(&self) -> &[TrashedContainer] {
        &self.containers
    }

    /// Returns the oldest generation at which a hold blocked deletion.
    pub fn awaited(&self) -> Option<Generation> {
        self.awaited
    }
}

impl Mark {
    /// Returns the trashed containers that can be deleted now: nothing in them is live, their
    /// period is over, and no hold is older than the commit that trashed them.
    pub fn deletable(&self, pool: &Pool, expiry: &Expiry) -> Deletable {
        let is_unneeded = |t: &&TrashedContainer| {
            self.live().of(t.entry.id).is_none() && expiry.is_over(pool, t.since)
        };
        let mut found = Deletable::default();
        for trashed in self.trash().iter().filter(is_unneeded) {
            let by = trashed.since.by;
            if self.is_held(trashed.since) {
                found.awaited = Some(found.awaited.map_or(by, |awaited| awaited.min(by)));
            } else if found.containers.len() < CONTAINERS_MAX {
                found.containers.push(*trashed);
            }
        }
        found
    }
}

/// Containers between the choice and the commit that removes their trash entries.
pub struct Deletion {
    rest: Vec<TrashedContainer>,
    done: Vec<TrashedContainer>,
    _permit: GcPermit,
}

impl Deletion {
    /// Begins to delete what this mark allows. First removes the commits before the marked one,
    /// durably. Fails with `Invalid` for an unfinished mark or an estimate.
    pub fn begin(
        pool: &Pool,
        permit: &GcPermit,
        mark: &Mark,
        deletable: Deletable,
    ) -> Result<Self> {
        mark.require_proof()?;
        pool.forget_roots_below(mark.generation())?;
        Ok(Self {
            rest: deletable.containers,
            done: Vec::new(),
            _permit: permit.clone(),
        })
    }

    /// Deletes about `budget_bytes`, at least one container. After the last one commits the removal
    /// of their trash entries, durably, and removes them from the mark's list.
    pub fn step(&mut self, pool: &Pool, mark: &mut Mark, budget_bytes: u64) -> Result<GcStep> {
        self.delete(pool, budget_bytes)?;
        if !self.rest.is_empty() {
            return Ok(GcStep::Working);
        }
        take_out(pool, &self.done)?;
        let done = self.done.iter().map(|t| t.entry.id);
        pool.chunks().index.forget(done.clone());
        pool.chunks().forget_directory_copies(done);
        mark.forget_deleted(&self.done);
        Ok(GcStep::Done)
    }

    /// Returns the containers deleted so far.
    pub fn deleted(&self) -> &[TrashedContainer] {
        &self.done
    }

    /// Deletes in bounded steps: a file system may need a millisecond for each MiB.
    fn delete(&mut self, pool: &Pool, budget_bytes: u64) -> Result<()> {
        let mut bytes = 0;
        while let Some(trashed) = self.rest.pop() {
            let id = trashed.entry.id;
            let quarantine = &pool.chunks().quarantine;
            quarantine.retired.note_going(id);
            pool.delete_blob(&container_name(id))?;
            quarantine.forget(id);
            self.done.push(trashed);
            bytes += trashed.entry.blob_bytes.max(FILE_BYTES);
            if bytes >= budget_bytes {
                break;
            }
        }
        Ok(())
    }
}

/// Commits the removal of the trash entries of deleted containers.
fn take_out(pool: &Pool, done: &[TrashedContainer]) -> Result<()> {
    let session = pool.begin_for(Purpose::Collect, LaneOptions::metadata())?;
    pool.commit_collected(
        pool.commits().next_sequence(Purpose::Collect),
        |mut base| {
            let mut edits = Vec::new();
            for TrashedContainer { entry, .. } in done {
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
        },
    )
    .map(drop)
}
