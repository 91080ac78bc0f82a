//! The receiving pool: one session at a time, begun when something is to be stored. The carrier and
//! the copies call this.
//!
//! Invariant: the next run finds what this one stored, however this one ends. In a dry run the pool
//! is a dry-run pool, which this module does not know.

use super::CopyError;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use std::sync::Arc;
use store::{ChunkRun, GrowingObject, Lane, LaneOptions, Pool, Reader, RegionKind};
use store::{StoreError, StoreErrorKind, WriteCounts, WriteSession};
use units::Fingerprint;

/// See the module's head.
pub(super) struct Receiver {
    pub pool: Arc<Pool>,
    lane: LaneOptions,
    session: Option<WriteSession>,
    /// Totals of ended sessions.
    counts: WriteCounts,
}

type Result<T> = std::result::Result<T, CopyError>;

impl Receiver {
    pub fn new(pool: Arc<Pool>, lane: LaneOptions) -> Self {
        Self {
            pool,
            lane,
            session: None,
            counts: WriteCounts::default(),
        }
    }

    pub fn reader(&self) -> &Arc<Reader> {
        self.pool.reader()
    }

    fn session(&mut self) -> Result<&mut WriteSession> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.pool.begin(self.lane).map_err(CopyError::Receiver)?,
        };
        Ok(self.session.insert(session))
    }

    fn lane(&mut self) -> Result<&mut Lane> {
        Ok(self.session()?.main())
    }

    /// Returns true if the chunk need not be sent. Only for sources that share this pool's
    /// fingerprints.
    pub fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        let holds = self.lane()?.holds(fingerprint);
        holds.map_err(CopyError::Receiver)
    }

    /// Stores a chunk in a region of this kind.
    pub fn store_chunk(&mut self, kind: RegionKind, bytes: &[u8]) -> Result<Fingerprint> {
        let lane = self.lane()?;
        let packed = lane.pack_in(kind);
        let stored = packed.and_then(|()| lane.store_chunk(bytes));
        stored.map_err(CopyError::Receiver)
    }

    /// Stores a recipe node, for builders.
    pub fn store_node(&mut self, node: &[u8]) -> store::Result<Fingerprint> {
        match self.lane() {
            Ok(lane) => lane.store_node(node),
            Err(e) => Err(e.into_cause()),
        }
    }

    /// Stores a directory with its own chunk boundaries, as a backup would.
    pub fn store_directory(&mut self, bytes: &[u8]) -> Result<ObjectRoot> {
        let stored = self.lane()?.store_object(bytes, true);
        stored.map_err(CopyError::Receiver)
    }

    /// Adds chunks to an object, and clears them.
    pub fn grow(&mut self, object: &mut GrowingObject, runs: &mut Vec<ChunkRun>) -> Result<()> {
        let reader = Arc::clone(self.reader());
        let put = object.put(runs, &reader, self.lane()?);
        put.map_err(CopyError::Receiver)?;
        runs.clear();
        Ok(())
    }

    /// Totals since the begin.
    pub fn counts(&self) -> WriteCounts {
        let mut counts = self.counts;
        if let Some(session) = &self.session {
            counts += session.counts();
        }
        counts
    }

    /// Returns the bytes that were sent so far, also of containers that are still open.
    pub fn sent_bytes(&mut self) -> u64 {
        let open = self.session.as_mut().map(|s| s.main().open_bytes());
        self.counts().stored_bytes + open.unwrap_or(0)
    }

    /// Closes open data containers, so that the counts include all data.
    pub fn seal(&mut self) -> Result<()> {
        let sealed = self.session()?.seal_data();
        sealed.map(drop).map_err(CopyError::Receiver)
    }

    /// Fails if another snapshot of a volume has taken the name meanwhile: a server may have
    /// created it.
    pub fn refuse_namesake(&self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.kind != SnapshotKind::Volume {
            return Ok(());
        }
        let there = self.pool.snapshots().map_err(CopyError::Receiver)?;
        let names = there.iter().filter(|s| s.kind == SnapshotKind::Volume);
        match names.map(|s| &s.name).any(|name| *name == snapshot.name) {
            true => {
                let (kind, name) = (
                    StoreErrorKind::Exists,
                    format!("snapshot {:?}", snapshot.name),
                );
                Err(CopyError::Receiver(StoreError::new(kind, name)))
            }
            false => Ok(()),
        }
    }

    /// Makes sent data durable, and adds `snapshots`.
    pub fn commit(&mut self, snapshots: &[Snapshot]) -> Result<()> {
        self.session()?;
        let Some(mut session) = self.session.take() else {
            return Ok(());
        };
        // Seal before the commit, because the commit waits for no I/O grants.
        session.seal_data().map_err(CopyError::Receiver)?;
        let committed = self.pool.commit(session, snapshots, &[]);
        let committed = committed.map_err(CopyError::Receiver)?;
        self.counts += committed.counts;
        Ok(())
    }

    /// Stores open containers for the next run to find.
    pub fn abandon(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        self.counts += session.counts();
        session.abandon().map_err(CopyError::Receiver)
    }
}
