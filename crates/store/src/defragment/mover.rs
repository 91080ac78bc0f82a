//! Copying the chunks of ranges forward, each range side by side into one container.
//!
//! Invariant: what is copied was verified, and is found in its new place when the commit is durable; until then,
//! and after a crash before it, where it was. Called by maintenance.

use crate::chunk_map::FingerprintSet;
use crate::collect::CachedChunks;
use crate::error::{Result, StoreError};
use crate::pool::{Pool, Purpose};
use crate::write_path::{Lane, LaneOptions, WriteSession};
use format::recipe::ObjectRoot;
use std::ops::{ControlFlow, Range};
use units::Fingerprint;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Chunks.
    pub chunks: u64,
    /// Their plain bytes.
    pub bytes: u64,
    /// ... of them, those that were in memory.
    pub cached_bytes: u64,
    /// Stored bytes that a commit has added: containers, with what describes them.
    pub stored_bytes: u64,
}

/// See the module's head. Dropped without a commit, it leaves containers that the next one takes up.
pub struct Mover {
    session: WriteSession,
    moved: FingerprintSet,
    counts: MoveCounts,
    /// Of the last chunk that was in memory.
    bytes: Vec<u8>,
}

impl Mover {
    /// Begins; one at a time for each pool. `lane` says how what is copied is packed.
    pub fn begin(pool: &Pool, lane: LaneOptions) -> Result<Self> {
        Ok(Self {
            session: pool.begin_for(Purpose::Defragment, lane)?,
            moved: FingerprintSet::default(),
            counts: MoveCounts::default(),
            bytes: Vec::new(),
        })
    }

    /// What was copied so far.
    pub fn counts(&self) -> MoveCounts {
        self.counts
    }

    /// Copies the chunks of these ranges of an object side by side, those left out that were copied before.
    /// `Corruption` when one of them cannot be read: those before it are copied.
    pub fn move_parts(
        &mut self,
        pool: &Pool,
        memory: &dyn CachedChunks,
        root: &ObjectRoot,
        parts: &[Range<u64>],
    ) -> Result<MoveCounts> {
        let (mut chunks, mut bytes) = (Vec::new(), 0usize);
        let mut listed = FingerprintSet::default();
        let moved = &self.moved;
        let visit = &mut |_, len: u64, f: Fingerprint| {
            if !f.is_hole() && !moved.contains(&f) && listed.insert(f) {
                bytes = bytes.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                chunks.push(f);
            }
            Ok(ControlFlow::Continue(()))
        };
        for part in parts {
            pool.reader()
                .visit_pieces(root, part.start, part.end, visit)?;
        }
        let before = self.counts;
        self.session.main().begin_run(bytes)?;
        for fingerprint in &chunks {
            self.copy(pool, memory, fingerprint)?;
        }
        let now = self.counts;
        Ok(MoveCounts {
            chunks: now.chunks - before.chunks,
            bytes: now.bytes - before.bytes,
            cached_bytes: now.cached_bytes - before.cached_bytes,
            stored_bytes: 0,
        })
    }

    fn copy(
        &mut self,
        pool: &Pool,
        memory: &dyn CachedChunks,
        fingerprint: &Fingerprint,
    ) -> Result<()> {
        let lane = self.session.main();
        let is_cached = memory.copy(fingerprint, &mut self.bytes);
        let len = match is_cached {
            true => store(lane, fingerprint, &self.bytes)?,
            false => store(lane, fingerprint, &pool.reader().chunk(fingerprint)?)?,
        };
        self.moved.insert(*fingerprint);
        self.counts.chunks += 1;
        self.counts.bytes += len;
        self.counts.cached_bytes += if is_cached { len } else { 0 };
        Ok(())
    }

    /// Enters the copies; durable on return. From then on they are what is read.
    pub fn commit(mut self, pool: &Pool) -> Result<MoveCounts> {
        let stored = self.session.seal_data()?;
        let Self { session, moved, .. } = self;
        pool.commit_with(Purpose::Defragment, |base| {
            session.commit(base, Vec::new(), 0)
        })?;
        pool.note_moved(moved.iter())?;
        Ok(MoveCounts {
            stored_bytes: stored.stored_bytes,
            ..self.counts
        })
    }
}

/// Its length.
fn store(lane: &mut Lane, fingerprint: &Fingerprint, chunk: &[u8]) -> Result<u64> {
    let stored = lane.store_again(chunk)?;
    match stored == *fingerprint {
        true => Ok(chunk.len() as u64),
        false => Err(StoreError::corruption("chunk", fingerprint, stored)),
    }
}
