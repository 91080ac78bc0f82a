//! The read path: fingerprint to verified bytes, objects to chunks.
//!
//! Invariant: bytes leave here only after they were checked against their fingerprint by this
//! process; a damaged region is set aside, and every other place that holds the chunk is tried
//! before an error is told. Called by pool, write path (old directories), space and check.

mod cache;
mod image;

pub use cache::ChunkRef;
pub use image::ImageVolume;

use crate::chunk_map::{ChunkMap, ChunkPlace, Near};
use crate::container::{ContainerReader, RegionPlace};
use crate::error::{Result, StoreError};
use crate::recipe::{Leaf, visit_differences, visit_leaves, visit_nodes};
use cache::ReadCache;
use format::bytes::FormatError;
use format::map_node::MapNode;
use format::recipe::{ObjectRoot, RecipeNode};
use format::tree::Entry;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
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
}

/// Reads verified chunks and objects of a pool. Shared by all threads.
pub struct Reader {
    chunks: Arc<ChunkMap>,
    containers: Arc<ContainerReader>,
    cache: ReadCache,
    near: Mutex<Near>,
    /// Regions that some thread decodes right now: others wait instead of doing it again.
    decoding: Mutex<Vec<RegionPlace>>,
    decoded: Condvar,
    chunk_hits: AtomicU64,
    region_reads: AtomicU64,
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
            decoding: Mutex::default(),
            decoded: Condvar::new(),
            chunk_hits: AtomicU64::new(0),
            region_reads: AtomicU64::new(0),
        }
    }

    /// What reading cost so far.
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            chunk_hits: self.chunk_hits.load(Ordering::Relaxed),
            region_reads: self.region_reads.load(Ordering::Relaxed),
        }
    }

    /// A chunk that is in memory already.
    pub fn cached_chunk(&self, fingerprint: &Fingerprint) -> Option<ChunkRef> {
        self.cache.get(fingerprint)
    }

    /// A chunk's verified bytes. `Corruption` when it is nowhere intact.
    pub fn chunk(&self, fingerprint: &Fingerprint) -> Result<ChunkRef> {
        if let Some(chunk) = self.cache.get(fingerprint) {
            self.chunk_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(chunk);
        }
        let mut near = std::mem::take(&mut *lock(&self.near));
        let place = self.chunks.locate(fingerprint, &mut near);
        *lock(&self.near) = near;
        let Some(place) = place? else {
            let found = "in no container that can be read";
            return Err(StoreError::corruption("chunk", fingerprint, found));
        };
        match self.at_place(fingerprint, place) {
            Err(first) if first.is_corruption() => {
                self.chunks.set_aside(place.region);
                let others = self.chunks.all_places(fingerprint)?;
                others
                    .into_iter()
                    .filter(|other| other.region != place.region)
                    .find_map(|other| self.at_place(fingerprint, other).ok())
                    .ok_or(first)
            }
            result => result,
        }
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

    fn at_place(&self, fingerprint: &Fingerprint, place: ChunkPlace) -> Result<ChunkRef> {
        let mut decoding = lock(&self.decoding);
        while decoding.contains(&place.region) {
            decoding = self
                .decoded
                .wait(decoding)
                .unwrap_or_else(|e| e.into_inner());
        }
        if let Some(chunk) = self.cache.get(fingerprint) {
            return Ok(chunk);
        }
        decoding.push(place.region);
        drop(decoding);
        let result = self.decode(fingerprint, place);
        lock(&self.decoding).retain(|at| *at != place.region);
        self.decoded.notify_all();
        result
    }

    fn decode(&self, fingerprint: &Fingerprint, place: ChunkPlace) -> Result<ChunkRef> {
        let sectors = format::container::region_sectors(place.stored_bytes);
        self.region_reads.fetch_add(1, Ordering::Relaxed);
        let region = self.containers.region(place.region, sectors)?;
        let (found, evicted) = self.cache.insert(region, fingerprint);
        evicted
            .into_iter()
            .for_each(|region| self.containers.reuse(region));
        found.ok_or_else(|| {
            let at = format!("{} sector {}", place.region.container, place.region.sector);
            StoreError::corruption("region", at, format!("does not hold chunk {fingerprint}"))
        })
    }

    /// False when part of an object is known to be damaged or missing: who has its source reads it
    /// again. Costs nothing while nothing is set aside in the pool.
    pub fn is_believed_whole(&self, root: &ObjectRoot) -> bool {
        if self.chunks.quarantine.is_empty() {
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

    /// A decoded recipe node.
    pub(crate) fn recipe_node(&self, fingerprint: &Fingerprint) -> Result<RecipeNode> {
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

    /// Visits the byte ranges, ascending, in which two objects in chunks of one fixed size differ:
    /// to the chunk, and what only the longer one has. Reads what differs of their recipes only.
    pub fn visit_differences(
        &self,
        before: &ObjectRoot,
        after: &ObjectRoot,
        visit: &mut dyn FnMut(Range<u64>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut load = |f: &Fingerprint| self.recipe_node(f);
        visit_differences(before, after, &mut load, visit)
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
        self.visit_pieces(root, 0, root.len, &mut |_, len, fingerprint| {
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
