//! Deleting containers from the trash.
//!
//! Invariant: a container is deleted only when it came into the trash by a commit that nobody began
//! before (`pool::holds`), and a mark that began after that found nothing live in it. First the old
//! commits that may need them go, durably; then the containers; then, when that is durable, the
//! trash forgets them. A crash anywhere leaves names in the trash whose containers are gone: nobody
//! needs those, and the next run goes on. Called by garbage collection.

use super::mark::Mark;
use super::{Expiry, GcPermit, GcStep};
use crate::pool::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::Result;
use chunk_store::catalog::{Edit, TrashedContainer, trash_key};
use chunk_store::container::container_name;
use units::Generation;

/// What deleting any file is worth of a budget of bytes.
const FILE_BYTES: u64 = 4096;

/// Containers that one deletion takes at most: one commit takes them out of the trash.
const CONTAINERS_MAX: usize = 1024;

/// Trashed containers that a mark allows to delete, a commit's worth at most.
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

    /// The oldest commit whose unneeded containers stay because somebody holds an older commit.
    pub fn awaited(&self) -> Option<Generation> {
        self.awaited
    }
}

impl Mark {
    /// What of the trash can be deleted by now: nothing in it is live, it is expired, and nobody
    /// began before it came into the trash.
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

/// Containers between the choice and the commit that takes them out of the trash.
pub struct Deletion {
    rest: Vec<TrashedContainer>,
    gone: Vec<TrashedContainer>,
    _permit: GcPermit,
}

impl Deletion {
    /// Begins to delete what this mark allows. First removes the commits before the marked one,
    /// durably. `Invalid` for a mark that proves nothing.
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
            gone: Vec::new(),
            _permit: permit.clone(),
        })
    }

    /// Deletes about so many bytes, one container at least; after the last one takes all of them out
    /// of the trash, durably, and out of the mark's list of it.
    pub fn step(&mut self, pool: &Pool, mark: &mut Mark, budget_bytes: u64) -> Result<GcStep> {
        self.delete(pool, budget_bytes)?;
        if !self.rest.is_empty() {
            return Ok(GcStep::Working);
        }
        take_out(pool, &self.gone)?;
        let gone = self.gone.iter().map(|t| t.entry.id);
        pool.chunks().index.forget(gone);
        mark.forget_deleted(&self.gone);
        Ok(GcStep::Done)
    }

    /// The containers that were deleted so far.
    pub fn deleted(&self) -> &[TrashedContainer] {
        &self.gone
    }

    /// A file system may take a millisecond for each MiB.
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
