//! Copies the chunks of ranges forward, each range contiguously into one container. `maintenance`
//! calls this.
//!
//! Invariant: a chunk is compared with its fingerprint while it is packed. Readers find the copy
//! once the commit is durable; until then, and after a crash before it, they find the old place.

use crate::collect::CachedChunks;
use crate::pool::{Pool, Purpose};
use crate::write_path::{LaneOptions, WriteSession};
use chunk_store::chunk_map::FingerprintSet;
use chunk_store::{Result, StoreError};
use format::defrag::MoveCounts;
use format::recipe::ObjectRoot;
use std::ops::{ControlFlow, Range};
use units::Fingerprint;

/// See the module's head. Without a commit it leaves containers that the next session adopts.
pub struct Mover {
    session: WriteSession,
    moved: FingerprintSet,
    counts: MoveCounts,
    /// Buffer for a chunk from memory.
    bytes: Vec<u8>,
}

/// Chunks that are being copied contiguously.
pub struct Copying {
    /// Remaining chunks with their lengths.
    left: std::vec::IntoIter<(Fingerprint, u64)>,
}

impl Copying {
    /// Returns true if nothing is left to copy.
    pub fn is_done(&self) -> bool {
        self.left.len() == 0
    }
}

impl Mover {
    /// Begins copying; one mover at a time for each pool. `lane` has the options for packing.
    pub fn begin(pool: &Pool, lane: LaneOptions) -> Result<Self> {
        Ok(Self {
            session: pool.begin_for(Purpose::Defragment, lane)?,
            moved: FingerprintSet::default(),
            counts: MoveCounts::default(),
            bytes: Vec::new(),
        })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> MoveCounts {
        self.counts
    }

    /// Copies the chunks of these ranges of an object contiguously, except those copied before.
    /// Fails with `Corruption` if one cannot be read; those before it are copied.
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

    /// Lists the chunks of these ranges of an object, except those copied before.
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

    /// Continues a list that another mover began and partly committed: the rest will be contiguous.
    pub fn take_over(&mut self, copying: &Copying) -> Result<()> {
        let bytes: u64 = copying.left.as_slice().iter().map(|(_, len)| len).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.session.main().begin_run(bytes)
    }

    /// Copies chunks until none is left or `is_enough` accepts the copied bytes; at least one.
    /// Returns the counts of this call. Fails with `Corruption` if a chunk cannot be read; those
    /// before it are copied. The chunks are contiguous unless another list is begun before the end.
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
        // A chunk in memory may have changed there. Then the device has it.
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

    /// Commits the copies. Durable on return. From then on readers use them.
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
