//! The read path: finds verified bytes by fingerprint, and walks objects. The pool, the write path
//! (old directories), space and check call this.
//!
//! ```text
//! object -> recipe -> fingerprint -> cache -> approach (directory or index) -> region
//!                                             single-flight: one thread reads a region
//! ```
//!
//! Invariant: bytes leave here only after this process compared them with their fingerprint. A
//! damaged region is put into quarantine, and every other place of the chunk is tried before an
//! error is returned.
#![forbid(unsafe_code)]

mod approach;
mod cache;
mod changes;
mod fast;
mod forward;
mod image;
mod recent;
mod run;

pub use approach::{Approach, Keep, Loaded, Route};
pub use cache::ChunkRef;
pub use changes::{ObjectHistory, changed_ranges, is_comparable, tell_changes};
pub use fast::Admit;
pub use image::ImageVolume;
pub use recent::RecentRegions;

use cache::{DecodedRegion, ReadCache};
use chunk_store::chunk_map::{ChunkMap, Near};
use chunk_store::container::{ContainerReader, RegionPlace, SingleFlight};
use chunk_store::recipe::{
    Leaf, Repairing, VisitPiece, repair_object, visit_differences, visit_leaves, visit_nodes,
    visit_past_damage,
};
use chunk_store::{Result, StoreError};
use duet::Duet;
use fast::AttachedTier;
use format::bytes::FormatError;
use format::map_node::MapNode;
use format::recipe::{ObjectRoot, RecipeNode};
use format::tree::Entry;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{Fingerprint, Part};

/// Size of the largest directory object that is read whole, bytes: ten million entries.
const DIRECTORY_BYTES_MAX: u64 = 1 << 30;

/// Counts of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Chunks served from memory.
    pub chunk_hits: u64,
    /// Regions read from the device, verified and decoded.
    pub region_reads: u64,
    /// Part of `region_reads` that the index led to without a directory.
    pub direct_reads: u64,
    /// Index hints that led to no region, or to one without the chunk.
    pub hints_denied: u64,
    /// Regions that another thread was already reading: this one waited and shared them.
    pub shared_reads: u64,
    /// How often a thread waited for another one's read, with the waits that go on.
    pub shared_waits: u64,
}

/// Reads verified chunks and objects of a pool. All threads share it.
pub struct Reader {
    chunks: Arc<ChunkMap>,
    containers: Arc<ContainerReader>,
    cache: ReadCache,
    near: Mutex<Near>,
    single_flight: SingleFlight<DecodedRegion>,
    chunk_hits: AtomicU64,
    region_reads: AtomicU64,
    direct_reads: AtomicU64,
    hints_denied: AtomicU64,
    shared_reads: AtomicU64,
    /// Receives an event for each region that was read from the device and verified.
    reported: OnceLock<Arc<Duet>>,
    recent: RecentRegions,
    fast: OnceLock<AttachedTier>,
}

/// Memory for decoded regions that something else uses, until this is dropped.
pub struct BorrowedMemory {
    reader: Arc<Reader>,
    bytes: usize,
}

impl BorrowedMemory {
    /// Returns its size, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for BorrowedMemory {
    fn drop(&mut self) {
        self.reader.cache.take_back();
    }
}

impl Reader {
    /// Creates a reader whose cache of decoded regions has `cache_bytes_max` bytes at most.
    pub fn new(
        chunks: Arc<ChunkMap>,
        containers: Arc<ContainerReader>,
        cache_bytes_max: usize,
    ) -> Self {
        Self {
            chunks,
            containers,
            cache: ReadCache::new(cache_bytes_max),
            near: Mutex::default(),
            single_flight: SingleFlight::default(),
            chunk_hits: AtomicU64::new(0),
            region_reads: AtomicU64::new(0),
            direct_reads: AtomicU64::new(0),
            hints_denied: AtomicU64::new(0),
            shared_reads: AtomicU64::new(0),
            reported: OnceLock::new(),
            recent: RecentRegions::default(),
            fast: OnceLock::new(),
        }
    }

    /// Sets the table that receives an event for each region that was read and verified. Only the
    /// first call has an effect.
    pub fn tell(&self, duet: &Arc<Duet>) {
        let _ = self.reported.set(Arc::clone(duet));
    }

    /// Returns the regions that were read last.
    pub fn recent_regions(&self) -> &RecentRegions {
        &self.recent
    }

    /// Returns the memory of decoded regions, bytes.
    pub fn cached_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }

    /// Borrows half of the memory for decoded regions; `None` while it is lent already.
    pub fn borrow_memory(self: &Arc<Self>) -> Option<BorrowedMemory> {
        let bytes = self.cache.release_half();
        let reader = Arc::clone(self);
        (bytes > 0).then_some(BorrowedMemory { reader, bytes })
    }

    /// Returns the counts of reads.
    pub fn counts(&self) -> ReadCounts {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ReadCounts {
            chunk_hits: read(&self.chunk_hits),
            region_reads: read(&self.region_reads),
            direct_reads: read(&self.direct_reads),
            hints_denied: read(&self.hints_denied),
            shared_reads: read(&self.shared_reads),
            shared_waits: self.single_flight.waits(),
        }
    }

    /// Returns a chunk if it is in memory.
    pub fn cached_chunk(&self, fingerprint: &Fingerprint) -> Option<ChunkRef> {
        self.cache.get(fingerprint)
    }

    /// Visits the chunks of a region that the cache of decoded regions has: to understand events
    /// about regions. Reads nothing.
    pub fn visit_decoded(&self, place: RegionPlace, visit: &mut dyn FnMut(&Fingerprint)) {
        self.cache.visit_region(place, visit);
    }

    /// Returns a chunk's verified bytes. Fails with `Corruption` if no sound copy exists.
    pub fn chunk(&self, fingerprint: &Fingerprint) -> Result<ChunkRef> {
        self.node(fingerprint, Approach::default())
    }

    /// Returns the fingerprint that bytes have in this pool: compares them with an object's pieces
    /// without reading those.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.containers.fingerprints.fingerprint(chunk)
    }

    /// Returns the chunk of one piece of an object that [`Self::visit_pieces`] reported. It is at
    /// least as long as the piece; longer only as the padded last chunk in fixed layout.
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

    /// Returns true if damage is known anywhere in the pool.
    pub fn knows_damage(&self) -> bool {
        self.chunks.quarantine.has_damage()
    }

    /// Returns true if the chunk is stored outside of quarantine. Reads no data.
    pub fn is_stored(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let mut near = std::mem::take(&mut *self.near.lock());
        let place = self.chunks.place(fingerprint, &mut near);
        *self.near.lock() = near;
        Ok(place?.is_some())
    }

    /// Returns false if a part of the object is known to be damaged or missing; a backup then reads
    /// its source again. Costs nothing while the quarantine is empty.
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

    /// Passes the lost parts of an object to `repairing`, which restores them. Returns true if the
    /// object is complete. Restored parts can be read only after their session has committed; the
    /// object must then be walked again. `whole` is the set of nodes that are complete with
    /// everything below them; they are not walked again.
    pub fn repair_object(
        &self,
        root: &ObjectRoot,
        whole: &mut HashSet<Fingerprint>,
        repairing: &mut dyn Repairing,
    ) -> Result<bool> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        repair_object(root, whole, &mut load, repairing)
    }

    /// Returns a decoded recipe node.
    pub fn recipe_node(&self, fingerprint: &Fingerprint) -> Result<RecipeNode> {
        let chunk = self.node(fingerprint, Approach::default().of_recipe())?;
        RecipeNode::decode(&chunk).map_err(|e| node_error(fingerprint, e))
    }

    /// Returns a decoded catalog node.
    pub fn map_node(&self, fingerprint: &Fingerprint) -> Result<MapNode> {
        let chunk = self.node(fingerprint, Approach::default().of_recipe())?;
        MapNode::decode(&chunk).map_err(|e| node_error(fingerprint, e))
    }

    /// Returns true if the recipe nodes on the way to byte `offset` of an object are in memory.
    pub fn is_recipe_cached(&self, root: &ObjectRoot, offset: u64) -> bool {
        let mut load = |f: &Fingerprint| {
            let absent = || StoreError::corruption("recipe node", f, "not in memory");
            let chunk = self.cache.get(f).ok_or_else(absent)?;
            RecipeNode::decode(&chunk).map_err(|e| node_error(f, e))
        };
        let end = offset.saturating_add(1);
        let visited = visit_leaves(root, offset, end, &mut load, &mut |_| {
            Ok(ControlFlow::Break(()))
        });
        visited.is_ok()
    }

    /// Visits the pieces of an object that overlap `[from, to)`: offset, length, and the chunk's
    /// fingerprint or a hole. The first and last piece may extend outside.
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

    /// Like [`Self::visit_pieces`], for the whole object and past damage: the range below a damaged
    /// recipe node is visited with its error.
    pub fn visit_pieces_past_damage(
        &self,
        root: &ObjectRoot,
        visit: &mut VisitPiece<'_>,
    ) -> Result<()> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        visit_past_damage(root, &mut load, visit)
    }

    /// Visits the byte ranges within `within`, ascending, in which two objects with the same fixed
    /// chunk size differ, rounded to chunks. The tail of the longer object counts as a difference.
    /// Reads only the recipe nodes that differ.
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

    /// Fills `into` from byte `from` of an object. Bytes past its end are zero.
    pub fn read_object(&self, root: &ObjectRoot, from: u64, into: &mut [u8]) -> Result<()> {
        into.fill(0);
        let to = from.saturating_add(into.len() as u64);
        self.visit_pieces(root, from, to, &mut |offset, len, fingerprint| {
            if !fingerprint.is_hole() {
                let chunk = self.piece(root, &fingerprint, len)?;
                copy_overlap(from, into, offset, chunk.part(..len as usize)?);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns the entries of a directory object.
    pub fn directory(&self, root: &ObjectRoot) -> Result<Vec<Entry>> {
        let no_hole = |len| {
            let found = format!("a hole of {len} bytes");
            StoreError::corruption("directory", root.fingerprint, found)
        };
        let bytes = self.read_pieces(root, DIRECTORY_BYTES_MAX, &|_, len| Err(no_hole(len)))?;
        Entry::decode_directory(&bytes).map_err(|e| node_error(&root.fingerprint, e))
    }

    /// Returns all bytes of a small object. Fails if it is longer than `limit`.
    pub fn read_whole(&self, root: &ObjectRoot, limit: u64) -> Result<Vec<u8>> {
        self.read_pieces(root, limit, &|bytes, len| {
            bytes.resize(bytes.len() + len as usize, 0);
            Ok(())
        })
    }

    /// Reads piece by piece: memory grows with verified bytes, not with the claimed length.
    fn read_pieces(
        &self,
        root: &ObjectRoot,
        limit: u64,
        hole: &dyn Fn(&mut Vec<u8>, u64) -> Result<()>,
    ) -> Result<Vec<u8>> {
        if root.len > limit {
            let found = format!("it has {} bytes, expected at most {limit}", root.len);
            return Err(StoreError::corruption("object", root.fingerprint, found));
        }
        let mut bytes = Vec::new();
        self.visit_pieces_forward(root, 0, root.len, &mut |_, len, fingerprint| {
            if fingerprint.is_hole() {
                hole(&mut bytes, len)?;
            } else {
                let chunk = self.piece(root, &fingerprint, len)?;
                bytes.extend_from_slice(chunk.part(..len as usize)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(bytes)
    }
}

/// Checks that a chunk has the length in its recipe. Only the padded last chunk may be longer.
pub fn expect_len(
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
    let why = format!("it has {found} bytes, its recipe says {len}");
    Err(StoreError::corruption("chunk", fingerprint, why))
}

/// Copies the overlap of `[at, at + chunk)` and `[from, from + into)`.
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

/// Returns the error for a node whose bytes are not those of a node.
pub fn node_error(fingerprint: &Fingerprint, e: FormatError) -> StoreError {
    StoreError::corruption(e.what, fingerprint, e)
}
