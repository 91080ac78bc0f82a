//! Sessions of a pool: one at a time, and what one leaves that did not commit.
//!
//! Invariant: a container number is given once in a process; after a session that did not commit
//! nothing is believed but what is stored. Called by the program through `Pool`.

use super::Pool;
use crate::catalog::Edit;
use crate::container::CONTAINER_BYTES_TARGET;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::recovery::{WRITER, adopt};
use crate::superblock::{Notes, heal_root, newest_root};
use crate::write_path::{Committed, LaneOptions, Start, WriteSession};
use chunking::Compression;
use format::snapshot::Snapshot;
use media::Barrier;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::SnapshotId;

impl Pool {
    /// Starts a session. One at a time; the pool must be open for writing.
    pub fn begin(&self, options: LaneOptions) -> Result<WriteSession> {
        if self.lock.is_none() {
            let why = "the pool was opened for reading";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let token = Arc::new(());
        let recover = {
            let mut head = self.head();
            if head.session.strong_count() > 0 {
                let why = "another session of this process is open";
                return Err(StoreError::new(StoreErrorKind::Invalid, why));
            }
            head.session = Arc::downgrade(&token);
            std::mem::replace(&mut head.uncommitted, true)
        };
        if recover {
            self.recover()?;
        }
        let head = self.head();
        let start = Start {
            generation: head.generation_highest.next(),
            record: head.record.clone(),
            writer: WRITER,
            next_sequence: Arc::clone(&self.next_sequence),
            token,
            adopted: head.adopted.clone(),
        };
        drop(head);
        WriteSession::new(
            self.media.clone(),
            self.config.clone(),
            self.master.clone(),
            Arc::clone(&self.chunks),
            Arc::clone(&self.reader),
            start,
            options,
        )
    }

    /// Finds what a session of this process left that did not commit, as after a crash: chunks that
    /// it claimed and never stored, containers that it stored, a root that it put and could not
    /// make durable.
    fn recover(&self) -> Result<()> {
        let (mut record, highest) = {
            let head = self.head();
            (head.record.clone(), head.generation_highest)
        };
        let (media, pool) = (&self.media, self.config.pool);
        // All its puts are visible then; fails for ever when one of them failed.
        media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        self.chunks.forget_recent();
        let notes = &mut Notes::new();
        let newer = newest_root(media, pool, &self.master, None, notes)?
            .filter(|newest| newest.generation > highest);
        if let Some(newest) = &newer {
            heal_root(media, pool, newest.generation)?;
            self.chunks.enter_from(&record.next_sequence)?;
            record = newest.record.clone();
        }
        let adopted = adopt(media, &record, &self.containers, &self.chunks, notes)?;
        self.next_sequence
            .fetch_max(adopted.next_sequence, Ordering::Relaxed);
        let mut head = self.head();
        head.adopted = adopted.entries;
        if let Some(newest) = newer {
            head.generation = newest.generation;
            head.generation_highest = newest.generation_highest;
            head.record = record;
        }
        Ok(())
    }

    /// A fresh random id for a snapshot.
    pub fn new_snapshot_id(&self) -> SnapshotId {
        let mut id = SnapshotId::default();
        self.media.random.fill(&mut id.0);
        id
    }

    /// Now, by the pool's clock.
    pub fn now(&self) -> units::UnixNanos {
        self.media.clock.now()
    }

    /// Ends a session: adds and removes snapshots in one commit, durable on return.
    pub fn commit(
        &self,
        session: WriteSession,
        add: &[Snapshot],
        remove: &[Snapshot],
    ) -> Result<Committed> {
        let mut edits: Vec<_> = remove
            .iter()
            .map(|s| Edit {
                key: s.key(),
                value: None,
            })
            .collect();
        edits.extend(add.iter().map(|s| Edit {
            key: s.key(),
            value: Some(s.encode()),
        }));
        let change = add.len() as i64 - remove.len() as i64;
        let committed = session.commit(edits, change)?;
        let mut head = self.head();
        head.generation = committed.generation;
        head.generation_highest = committed.generation;
        head.record = committed.record.clone();
        head.adopted.clear();
        head.uncommitted = false;
        Ok(committed)
    }

    /// Adds and removes snapshots without storing data: forget, tag.
    pub fn change_snapshots(&self, add: &[Snapshot], remove: &[Snapshot]) -> Result<Committed> {
        let session = self.begin(LaneOptions::metadata())?;
        self.commit(session, add, remove)
    }
}

impl LaneOptions {
    /// For commits that store no user data.
    pub fn metadata() -> Self {
        Self {
            compression: Compression::Zstd(1),
            region_bytes: 128 << 10,
            container_bytes: CONTAINER_BYTES_TARGET,
        }
    }
}
