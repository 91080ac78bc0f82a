//! The read path: fingerprint to verified bytes, objects to chunks.
//!
//! Invariant: bytes leave here only after they were checked against their fingerprint by this
//! process; a damaged region is set aside, and every other place that holds the chunk is tried
//! before an error is told. Called by pool, write path (old directories), space and check.

mod approach;
mod cache;
mod changes;
mod flights;
mod forward;
mod image;

pub use approach::{Approach, Keep, Loaded, Route};
pub use cache::ChunkRef;
pub use changes::History;
pub use changes::{changed_ranges, is_comparable, tell_changes};
pub use image::ImageVolume;

use cache::ReadCache;
use chunk_store::chunk_map::{ChunkMap, Near};
use chunk_store::container::ContainerReader;
use chunk_store::recipe::{
    Leaf, Mending, VisitPiece, mend_object, visit_differences, visit_leaves, visit_nodes,
    visit_past_damage,
};
use chunk_store::{Result, StoreError};
use duet::Duet;
use flights::Flights;
use format::bytes::FormatError;
use format::map_node::MapNode;
use format::recipe::{ObjectRoot, RecipeNode};
use format::tree::Entry;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::Fingerprint;

/// Largest directory object that is read whole: ten million entries.
const DIRECTORY_BYTES_MAX: u64 = 1 << 30;

/// What reading cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Chunks served from memory.
    pub chunk_hits: u64,
    /// Regions read from the device, verified and decoded.
    pub region_reads: u64,
    /// ... of them, those that the index led to without a directory.
    pub direct_reads: u64,
    /// Times that the index led to a region that does not hold the chunk, or to none.
    pub hints_denied: u64,
    /// Regions that another thread was reading already: waited for and shared.
    pub shared_reads: u64,
}

/// Reads verified chunks and objects of a pool. Shared by all threads.
pub struct Reader {
    chunks: Arc<ChunkMap>,
    containers: Arc<ContainerReader>,
    cache: ReadCache,
    near: Mutex<Near>,
    flights: Flights,
    chunk_hits: AtomicU64,
    region_reads: AtomicU64,
    direct_reads: AtomicU64,
    hints_denied: AtomicU64,
    shared_reads: AtomicU64,
    /// Who is told of regions that were read and verified.
    told: OnceLock<Arc<Duet>>,
}

impl Reader {
    pub(crate) fn new(
        chunks: Arc<ChunkMap>,
        containers: Arc<ContainerReader>,
        cache_bytes_max: usize,
    ) -> Self {
        Self {
            chunks,
            containers,
            cache: ReadCache::new(cache_bytes_max),
            near: Mutex::default(),
            flights: Flights::default(),
            chunk_hits: AtomicU64::new(0),
            region_reads: AtomicU64::new(0),
            direct_reads: AtomicU64::new(0),
            hints_denied: AtomicU64::new(0),
            shared_reads: AtomicU64::new(0),
            told: OnceLock::new(),
        }
    }

    /// Tells this table from now on which regions were read and verified; the first one stays.
    pub(crate) fn tell(&self, duet: &Arc<Duet>) {
        let _ = self.told.set(Arc::clone(duet));
    }

    /// Memory of decoded regions.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }

    /// What reading cost so far.
    pub fn counts(&self) -> ReadCounts {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ReadCounts {
            chunk_hits: read(&self.chunk_hits),
            region_reads: read(&self.region_reads),
            direct_reads: read(&self.direct_reads),
            hints_denied: read(&self.hints_denied),
            shared_reads: read(&self.shared_reads),
        }
    }

    /// A chunk that is in memory already.
    pub fn cached_chunk(&self, fingerprint: &Fingerprint) -> Option<ChunkRef> {
        self.cache.get(fingerprint)
    }

    /// A chunk's verified bytes. `Corruption` when it is nowhere intact.
    pub fn chunk(&self, fingerprint: &Fingerprint) -> Result<ChunkRef> {
        self.node(fingerprint, Approach::default())
    }

    /// The chunk of one piece of an object, as told by [`Self::visit_pieces`]: at least as long as
    /// the piece, longer only as the padded last chunk of fixed layout.
    pub fn piece(
        &self,
        root: &ObjectRoot,
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Result<ChunkRef> {
        let chunk = self.chunk(fingerprint)?;
        expect_len(root, fingerprint, &chunk, len)?;
        Ok(chunk)
    }

    /// True when something that is stored is known to be damaged, anywhere in the pool.
    pub fn knows_damage(&self) -> bool {
        self.chunks.quarantine.has_damage()
    }

    /// True when the chunk is stored where nothing is known to be damaged. Reads no data.
    pub fn is_stored(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let mut near = std::mem::take(&mut *self.near.lock());
        let place = self.chunks.place(fingerprint, &mut near);
        *self.near.lock() = near;
        Ok(place?.is_some())
    }

    /// False when part of an object is known to be damaged or missing: who has its source reads it
    /// again. Costs nothing while nothing is set aside in the pool.
    pub fn is_believed_whole(&self, root: &ObjectRoot) -> bool {
        if !self.chunks.quarantine.has_damage() {
            return true;
        }
        let (mut near, mut whole) = (Near::default(), true);
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        let walked = visit_nodes(root, &mut load, &mut |at, _| {
            whole = whole && self.chunks.place(&at.fingerprint, &mut near)?.is_some();
            Ok(whole)
        });
        whole && walked.is_ok()
    }

    /// Hands the lost parts of an object to who can bring them back. True when it is whole; what a
    /// session has brought back can be read when it has committed, and is to be walked again then. `whole`
    /// are nodes that are, with all below them: no object is walked there again.
    pub fn mend_object(
        &self,
        root: &ObjectRoot,
        whole: &mut HashSet<Fingerprint>,
        mending: &mut dyn Mending,
    ) -> Result<bool> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        mend_object(root, whole, &mut load, mending)
    }

    /// A decoded recipe node.
    pub fn recipe_node(&self, fingerprint: &Fingerprint) -> Result<RecipeNode> {
        let chunk = self.chunk(fingerprint)?;
        RecipeNode::decode(&chunk).map_err(|e| node_error(fingerprint, e))
    }

    /// A decoded catalog node.
    pub(crate) fn map_node(&self, fingerprint: &Fingerprint) -> Result<MapNode> {
        let chunk = self.chunk(fingerprint)?;
        MapNode::decode(&chunk).map_err(|e| node_error(fingerprint, e))
    }

    /// Visits the pieces of an object that overlap `[from, to)`: offset, length, and the chunk's
    /// fingerprint, a hole for zeroes. The first and last piece may reach outside.
    pub fn visit_pieces(
        &self,
        root: &ObjectRoot,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, u64, Fingerprint) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        visit_leaves(
            root,
            from,
            to,
            &mut load,
            &mut |Leaf {
                      offset,
                      len,
                      fingerprint,
                  }| { visit(offset, len, fingerprint) },
        )
        .map(drop)
    }

    /// As [`Self::visit_pieces`], of the whole object and past damage: what a damaged node of the
    /// recipe stands for is visited with its error.
    pub fn visit_pieces_past_damage(
        &self,
        root: &ObjectRoot,
        visit: &mut VisitPiece<'_>,
    ) -> Result<()> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        visit_past_damage(root, &mut load, visit)
    }

    /// Visits the byte ranges, ascending and cut to `within`, in which two objects in chunks of one
    /// fixed size differ: to the chunk, and what only the longer one has. Reads what differs of their
    /// recipes only.
    pub fn visit_differences(
        &self,
        before: &ObjectRoot,
        after: &ObjectRoot,
        within: Range<u64>,
        visit: &mut dyn FnMut(Range<u64>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        visit_differences(before, after, within, &mut load, visit)
    }

    /// Fills `into` from byte `from` of an object; past the end it reads as zeroes.
    pub fn read_object(&self, root: &ObjectRoot, from: u64, into: &mut [u8]) -> Result<()> {
        into.fill(0);
        let to = from.saturating_add(into.len() as u64);
        self.visit_pieces(root, from, to, &mut |offset, len, fingerprint| {
            if !fingerprint.is_hole() {
                let chunk = self.piece(root, &fingerprint, len)?;
                copy_overlap(
                    from,
                    into,
                    offset,
                    chunk.get(..len as usize).unwrap_or_default(),
                );
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The entries of a directory object.
    pub fn directory(&self, root: &ObjectRoot) -> Result<Vec<Entry>> {
        let no_hole = |len| {
            let found = format!("a hole of {len} bytes");
            StoreError::corruption("directory", root.fingerprint, found)
        };
        let bytes = self.read_pieces(root, DIRECTORY_BYTES_MAX, &|_, len| Err(no_hole(len)))?;
        Entry::decode_directory(&bytes).map_err(|e| node_error(&root.fingerprint, e))
    }

    /// All bytes of a small object; refuses more than `limit`.
    pub fn read_whole(&self, root: &ObjectRoot, limit: u64) -> Result<Vec<u8>> {
        self.read_pieces(root, limit, &|bytes, len| {
            bytes.resize(bytes.len() + len as usize, 0);
            Ok(())
        })
    }

    /// Appends piece by piece: memory grows with what was verified, not with what is claimed.
    fn read_pieces(
        &self,
        root: &ObjectRoot,
        limit: u64,
        hole: &dyn Fn(&mut Vec<u8>, u64) -> Result<()>,
    ) -> Result<Vec<u8>> {
        if root.len > limit {
            let found = format!("{} bytes, at most {limit} expected", root.len);
            return Err(StoreError::corruption("object", root.fingerprint, found));
        }
        let mut bytes = Vec::new();
        self.visit_pieces_forward(root, 0, root.len, &mut |_, len, fingerprint| {
            if fingerprint.is_hole() {
                hole(&mut bytes, len)?;
            } else {
                let chunk = self.piece(root, &fingerprint, len)?;
                bytes.extend_from_slice(chunk.get(..len as usize).unwrap_or_default());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(bytes)
    }
}

/// A chunk must have the length that its recipe says: longer only as the padded last one.
pub(crate) fn expect_len(
    root: &ObjectRoot,
    fingerprint: &Fingerprint,
    chunk: &[u8],
    len: u64,
) -> Result<()> {
    let found = chunk.len() as u64;
    let fits = match root.layout {
        format::recipe::Layout::Variable => found == len,
        format::recipe::Layout::Fixed(log2) => found == 1 << log2 && len <= found,
    };
    if fits {
        return Ok(());
    }
    let why = format!("{found} bytes, its recipe says {len}");
    Err(StoreError::corruption("chunk", fingerprint, why))
}

/// Copies what `[at, at + chunk)` and `[from, from + into)` share.
fn copy_overlap(from: u64, into: &mut [u8], at: u64, chunk: &[u8]) {
    let start = from.max(at);
    let end = from
        .saturating_add(into.len() as u64)
        .min(at.saturating_add(chunk.len() as u64));
    if start >= end {
        return;
    }
    let len = (end - start) as usize;
    let target = into.get_mut((start - from) as usize..);
    let source = chunk.get((start - at) as usize..);
    let target = target.and_then(|t| t.get_mut(..len));
    let source = source.and_then(|s| s.get(..len));
    if let (Some(target), Some(source)) = (target, source) {
        target.copy_from_slice(source);
    }
}

pub(crate) fn node_error(fingerprint: &Fingerprint, e: FormatError) -> StoreError {
    StoreError::corruption(e.what, fingerprint, e)
}
