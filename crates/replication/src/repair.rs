//! Repair from a replica: reads lost chunks from another pool that has copies of the same
//! snapshots, and stores them again. The program calls this when damage is known and quarantined.
//!
//! ```text
//! walk (recipes here) --lost part--> replica (same snapshot, path, offset)
//!                                        |
//! session of this pool <--fingerprint matches-- bytes
//! ```
//!
//! Pools have their own keys, so a lost chunk has another fingerprint in the replica: its snapshot,
//! path and offset lead to it (decision 24). Pools with the same keys find it by its fingerprint.
//!
//! Invariant: the replica is not trusted: a chunk or node is stored only if its fingerprint in this
//! pool is the lost one. Nothing is removed, and no snapshot changes. Repaired chunks go through
//! sessions, as a backup's chunks do, so stopping at any moment loses nothing.

mod naming;
mod place;
mod repairing;
mod round;
mod walk;

use crate::copy::Pairs;
use format::snapshot::{Snapshot, SnapshotKind};
use round::Round;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{LaneOptions, Pool, Result, StoreError, StoreErrorKind};

/// Maximum number of rounds. Contents of a repaired node or directory are examined in the next
/// round, so a run takes at most as many as trees are deep, unless the disk damages what is written
/// to it.
const ROUNDS_MAX: u32 = 4096;

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// Snapshots of the pool that the replica has too.
    pub snapshots_common: u64,
    /// Plain bytes read from the replica.
    pub read_bytes: u64,
    /// Chunks and nodes that were stored again.
    pub chunks: u64,
    /// Their plain bytes.
    pub bytes: u64,
    /// Lost parts that the replica did not have or could not read.
    pub missing: u64,
    /// Lost parts for which the replica had other bytes.
    pub refused: u64,
    /// The first error of reading the replica, as text.
    pub trouble: Option<String>,
}

/// Called at intervals with the progress; decides whether to continue.
pub(crate) type GoOn<'a> = dyn FnMut(&ReplicaCounts) -> ControlFlow<()> + 'a;

/// See the module's head.
pub struct ReplicaRepair {
    pool: Arc<Pool>,
    replica: Arc<Pool>,
    is_one_domain: bool,
    snapshots: Vec<Snapshot>,
    pairs: Pairs,
    /// Error of a part of the replica's catalog that cannot be read.
    trouble: Option<String>,
}

impl ReplicaRepair {
    /// Prepares a repair of `pool`, which is open for writing. Unreadable parts of the catalogs are
    /// skipped.
    pub fn new(pool: Arc<Pool>, replica: Arc<Pool>) -> Result<Self> {
        let (snapshots, _) = pool.snapshots_readable()?;
        let (there, unreadable) = replica.snapshots_readable()?;
        Ok(Self {
            is_one_domain: pool.shares_fingerprints_with(&replica),
            pairs: Pairs::new(snapshots.clone(), there),
            trouble: unreadable.map(|e| e.to_string()),
            snapshots,
            pool,
            replica,
        })
    }

    /// Repairs what it can, durable on return. Fails with `Interrupted` if `go_on` stops it: the
    /// next run finds what was stored until then.
    pub fn run(&self, options: LaneOptions, go_on: &mut GoOn<'_>) -> Result<ReplicaCounts> {
        let mut counts = ReplicaCounts {
            snapshots_common: self.common().count() as u64,
            trouble: self.trouble.clone(),
            ..ReplicaCounts::default()
        };
        let (mut whole, mut whole_trees) = (HashSet::new(), HashSet::new());
        for _ in 0..ROUNDS_MAX {
            (counts.missing, counts.refused) = (0, 0);
            let mut round = Round {
                pool: &self.pool,
                replica: self.replica.reader(),
                is_one_domain: self.is_one_domain,
                session: self.pool.begin(options)?,
                counts,
                whole,
                whole_trees,
                found_more: false,
                looked_up: 0,
                go_on: &mut *go_on,
            };
            let walked = self.walk(&mut round);
            let mut session = round.session;
            if let Err(e) = walked {
                session.abandon()?;
                return Err(e);
            }
            let stored = session.seal_data()?;
            match stored.chunks_new {
                0 => session.abandon()?,
                _ => self.pool.commit(session, &[], &[]).map(drop)?,
            }
            counts = round.counts;
            counts.chunks += stored.chunks_new;
            counts.bytes += stored.new_bytes;
            (whole, whole_trees) = (round.whole, round.whole_trees);
            if !round.found_more {
                break;
            }
        }
        Ok(counts)
    }

    /// Snapshots that both pools have, as pairs.
    fn common(&self) -> impl Iterator<Item = (&Snapshot, &Snapshot)> {
        let all = self.snapshots.iter();
        all.filter_map(|here| Some((here, self.pairs.there(here)?)))
    }

    fn walk(&self, round: &mut Round<'_>) -> Result<()> {
        if self.is_one_domain {
            for snapshot in &self.snapshots {
                self.walk_snapshot(snapshot, None, round)?;
            }
            return self.walk_volumes(round);
        }
        for (here, there) in self.common() {
            self.walk_snapshot(here, Some(there), round)?;
        }
        Ok(())
    }

    fn walk_snapshot(
        &self,
        here: &Snapshot,
        there: Option<&Snapshot>,
        round: &mut Round<'_>,
    ) -> Result<()> {
        let theirs = there.map(|there| there.root);
        match here.kind {
            SnapshotKind::Tree => round.tree(&here.root, theirs, self.pairs.neighbour(here)),
            _ => round.object(&here.root, theirs),
        }
    }

    /// Live volumes have no snapshot in the replica, so only their fingerprints can lead to copies.
    fn walk_volumes(&self, round: &mut Round<'_>) -> Result<()> {
        let volumes = match self.pool.volumes() {
            Err(e) if e.is_corruption() => Vec::new(),
            volumes => volumes?,
        };
        for volume in volumes {
            round.object(&volume.root, None)?;
        }
        Ok(())
    }
}

fn interrupted() -> StoreError {
    StoreError::new(StoreErrorKind::Interrupted, "repair from a replica")
}
