//! Repair from a replica: what is lost here is read from another pool that has copies of the same
//! snapshots, and stored again.
//!
//! Pools have their own keys, so what is lost has another name there: its snapshot, path and offset lead
//! to it (decision 24). Pools with the same keys are asked for it by its fingerprint.
//!
//! Invariant: nothing is believed of the replica: a chunk or node is stored only when what the pool
//! calls it is what it lacks. Nothing is removed, and no snapshot changes. What comes back goes through
//! sessions, as a backup's chunks do: stopped at any moment, it has lost nothing. Called by the program, when
//! damage is known, and after it was set aside.

mod mending;
mod naming;
mod place;
mod round;
mod walk;

use crate::replicate::Pairs;
use format::snapshot::{Snapshot, SnapshotKind};
use round::Round;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{LaneOptions, Pool, Result, StoreError, StoreErrorKind};

/// What a node or directory that came back has below it is looked at in the next round, so there are as many as
/// trees are deep, at most; more only where a disk damages what is written to it.
const ROUNDS_MAX: u32 = 4096;

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// Snapshots of the pool that the replica has too.
    pub snapshots_common: u64,
    /// Plain bytes that were read from the replica.
    pub read_bytes: u64,
    /// Chunks and nodes that were stored again.
    pub chunks: u64,
    /// Their plain bytes.
    pub bytes: u64,
    /// Times that the replica did not have what is lost, or could not give it.
    pub missing: u64,
    /// Times that it had other bytes in that place.
    pub refused: u64,
    /// The first failure to read the replica, in words.
    pub trouble: Option<String>,
}

/// Told now and then; says whether to go on.
pub(crate) type GoOn<'a> = dyn FnMut(&ReplicaCounts) -> ControlFlow<()> + 'a;

/// See the module's head.
pub struct ReplicaRepair {
    pool: Arc<Pool>,
    replica: Arc<Pool>,
    is_one_domain: bool,
    snapshots: Vec<Snapshot>,
    pairs: Pairs,
    /// Part of the replica's catalog cannot be read.
    trouble: Option<String>,
}

impl ReplicaRepair {
    /// Between two open pools, of which `pool` is open for writing. What cannot be read of the catalogs is
    /// passed over.
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

    /// Brings back what it can, durable on return. `Interrupted` when `go_on` says so: what was stored
    /// until then is found by the next run.
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

    /// Snapshots that both have, with what they are there.
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

    /// What is live has no copy under its own name.
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
