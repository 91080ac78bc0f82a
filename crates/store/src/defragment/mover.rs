//! Copying the chunks of ranges forward, each range side by side into one container.
//!
//! Invariant: what is copied is compared with its fingerprint as it is packed, and is found in its
//! new place when the commit is durable; until then, and after a crash before it, where it was.
//! Called by maintenance.

use crate::collect::CachedChunks;
use crate::pool::{Pool, Purpose};
use crate::write_path::{LaneOptions, WriteSession};
use chunk_store::chunk_map::FingerprintSet;
use chunk_store::{Result, StoreError};
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

/// Chunks that are being copied side by side.
pub struct Copying {
    /// With their lengths.
    left: std::vec::IntoIter<(Fingerprint, u64)>,
}

impl Copying {
    /// Nothing of them is left.
    pub fn is_done(&self) -> bool {
        self.left.len() == 0
    }
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
        let mut copying = self.begin_parts(pool, root, parts)?;
        self.go_on(pool, memory, &mut copying, &mut |_| false)
    }

    /// Looks which chunks these ranges of an object consist of, those left out that were copied before.
    pub fn begin_parts(
        &mut self,
        pool: &Pool,
        root: &ObjectRoot,
        parts: &[Range<u64>],
    ) -> Result<Copying> {
        let mut chunks = Vec::new();
        let mut listed = FingerprintSet::default();
        let moved = &self.moved;
        let visit = &mut |_, len: u64, f: Fingerprint| {
            if !f.is_hole() && !moved.contains(&f) && listed.insert(f) {
                chunks.push((f, len));
            }
            Ok(ControlFlow::Continue(()))
        };
        for part in parts {
            pool.reader()
                .visit_pieces(root, part.start, part.end, visit)?;
        }
        let copying = Copying {
            left: chunks.into_iter(),
        };
        self.take_over(&copying)?;
        Ok(copying)
    }

    /// What another has begun, and has committed some of: the rest will lie side by side.
    pub fn take_over(&mut self, copying: &Copying) -> Result<()> {
        let bytes: u64 = copying.left.as_slice().iter().map(|(_, len)| len).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.session.main().begin_run(bytes)
    }

    /// Copies chunks until they are all copied, or until so much was copied that `is_enough`: one at least. What it
    /// copied is told. `Corruption` when one of them cannot be read: those before it are copied. They lie
    /// side by side unless something else is begun before they are all copied.
    pub fn go_on(
        &mut self,
        pool: &Pool,
        memory: &dyn CachedChunks,
        copying: &mut Copying,
        is_enough: &mut dyn FnMut(u64) -> bool,
    ) -> Result<MoveCounts> {
        let before = self.counts;
        for (fingerprint, _) in copying.left.by_ref() {
            self.copy(pool, memory, &fingerprint)?;
            if is_enough(self.counts.bytes - before.bytes) {
                break;
            }
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
        // What is in memory may have changed there: then the device has it.
        let is_cached = memory.copy(fingerprint, &mut self.bytes)
            && lane.store_again(fingerprint, &self.bytes)?.is_none();
        let len = match is_cached {
            true => self.bytes.len() as u64,
            false => {
                let chunk = pool.reader().chunk(fingerprint)?;
                if let Some(found) = lane.store_again(fingerprint, &chunk)? {
                    return Err(StoreError::corruption("chunk", fingerprint, found));
                }
                chunk.len() as u64
            }
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
