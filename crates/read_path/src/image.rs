//! Serves an object of the pool as a read-only volume. Exports, mounts and views of snapshots call
//! this through `Volume`.
//!
//! Invariant: every served byte was verified. Damage is an I/O error of exactly the range that it
//! affects.

use super::changes::{ObjectHistory, StateChanges, is_comparable};
use super::{Admit, Approach, ChunkRef, Reader, expect_len, node_error};
use chunk_store::recipe::{FixedLeaves, Leaf, fixed_chunk};
use chunk_store::{Result, StoreError, StoreErrorKind};
use classes::Admission;
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{Fingerprint, IoClass, Part, Pattern};
use volume::{
    Capabilities, Changes, Durability, Extent, FastPath, RequestContext, TrackChanges, Volume,
    VolumeError, VolumeErrorKind, VolumeInfo,
};

/// A snapshot of an image, stream or file, served from the pool.
pub struct ImageVolume {
    reader: Arc<Reader>,
    root: ObjectRoot,
    description: String,
    history: Option<Arc<dyn ObjectHistory>>,
    /// Decoded nodes of an object in variable layout, for lookups by offset.
    nodes: Mutex<HashMap<Fingerprint, Arc<NodeEnds>>>,
}

/// Maximum number of decoded nodes: at 40 bytes a child, about 20 MiB.
const NODES_MAX: usize = 256;
/// Number of chunks that [`ImageVolume::is_known`] looks at. Longer requests go to a worker thread
/// anyway: checking each chunk would cost as much as reading.
const KNOWN_CHUNKS_MAX: usize = 4;

/// A node in variable layout. `ends` are offsets from the node's first byte.
struct NodeEnds {
    level: u8,
    ends: Vec<u64>,
    children: Vec<Fingerprint>,
}

impl ImageVolume {
    /// Serves `root`. `description` is one line for humans.
    pub fn new(reader: Arc<Reader>, root: ObjectRoot, description: String) -> Self {
        Self {
            reader,
            root,
            description,
            history: None,
            nodes: Mutex::default(),
        }
    }

    /// Adds earlier states, so that changes since them can be reported.
    pub fn comparable_with(mut self, history: Arc<dyn ObjectHistory>) -> Self {
        self.history = Some(history);
        self
    }

    /// Returns how the fast tier admits the chunks of a request: as the policy says of its class.
    /// Unclassified reads of files do not fill it, because nothing judges their pattern.
    fn admit(&self, context: RequestContext) -> Option<Admit> {
        let class = context.class;
        let is_random = context.pattern == Some(Pattern::Random);
        let admits = match self.reader.admission(class) {
            Admission::Never => false,
            Admission::WhileFree | Admission::ByPattern => is_random,
            Admission::Always => class != IoClass(0) || is_random,
        };
        admits.then(|| Admit::data(class))
    }

    fn read_at(&self, context: RequestContext, offset: u64, into: &mut [u8]) -> Result<()> {
        let admit = self.admit(context);
        let mut leaves = None;
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let piece = self.piece(at, &mut leaves, Approach::default())?;
            let within = at.saturating_sub(piece.offset);
            let take = piece.len.saturating_sub(within).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(take);
            if piece.fingerprint.is_hole() {
                now.fill(0);
            } else {
                let chunk = self.reader.chunk(&piece.fingerprint)?;
                expect_len(&self.root, &piece.fingerprint, &chunk, piece.len)?;
                self.reader.offer_to_tier(&piece.fingerprint, admit, &chunk);
                let from = within as usize;
                now.copy_from_slice(chunk.part(from..from + take)?);
            }
            rest = later;
            at += take as u64;
        }
        Ok(())
    }

    /// Returns the served object.
    pub fn root(&self) -> &ObjectRoot {
        &self.root
    }

    /// Returns the chunk or hole at byte `at`, which must be below the end. In fixed layout
    /// `leaves` keeps the node for lookups nearby.
    pub fn piece(
        &self,
        at: u64,
        leaves: &mut Option<FixedLeaves<ChunkRef>>,
        approach: Approach,
    ) -> Result<Leaf> {
        let Layout::Fixed(log2) = self.root.layout else {
            return self.variable_piece(at, approach);
        };
        let fingerprint = FixedLeaves::chunk_at(leaves, &self.root, log2, at, &mut |node| {
            self.reader.node(node, approach.of_recipe())
        })?;
        let offset = at & !((1 << log2) - 1);
        Ok(Leaf {
            offset,
            len: (1 << log2).min(self.root.len.saturating_sub(offset)),
            fingerprint,
        })
    }

    fn variable_piece(&self, at: u64, approach: Approach) -> Result<Leaf> {
        self.variable_leaf(at, &mut |node| self.node_ends(node, approach))
    }

    /// Finds a leaf in variable layout, with one binary search for each level.
    fn variable_leaf(
        &self,
        at: u64,
        load: &mut dyn FnMut(&Fingerprint) -> Result<Arc<NodeEnds>>,
    ) -> Result<Leaf> {
        let mut fingerprint = self.root.fingerprint;
        let (mut start, mut len) = (0, self.root.len);
        for level in (1..=self.root.level).rev() {
            if fingerprint.is_hole() {
                break;
            }
            let node = load(&fingerprint)?;
            let end = node.ends.last().copied().unwrap_or(0);
            if node.level != level || end != len {
                let found = format!("level {}, {end} bytes, expected {level}, {len}", node.level);
                return Err(StoreError::corruption("recipe node", fingerprint, found));
            }
            let number = node.ends.partition_point(|end| *end <= at - start);
            let before = match number.checked_sub(1) {
                Some(last) => node.ends.get(last).copied().unwrap_or(0),
                None => 0,
            };
            let (Some(child), Some(end)) = (node.children.get(number), node.ends.get(number))
            else {
                let found = "it does not reach the wanted byte";
                return Err(StoreError::corruption("recipe node", fingerprint, found));
            };
            fingerprint = *child;
            start += before;
            len = end - before;
        }
        if at >= start.saturating_add(len) {
            let (what, found) = ("recipe", "it ends before the object");
            return Err(StoreError::corruption(what, self.root.fingerprint, found));
        }
        Ok(Leaf {
            offset: start,
            len,
            fingerprint,
        })
    }

    fn node_ends(&self, fingerprint: &Fingerprint, approach: Approach) -> Result<Arc<NodeEnds>> {
        if let Some(node) = self.nodes.lock().get(fingerprint) {
            return Ok(Arc::clone(node));
        }
        let node = self.reader.node(fingerprint, approach.of_recipe())?;
        let node = RecipeNode::decode(&node).map_err(|e| node_error(fingerprint, e))?;
        if node.layout != Layout::Variable {
            let found = "it has another layout";
            return Err(StoreError::corruption("recipe node", fingerprint, found));
        }
        let mut end = 0u64;
        // The decoder has checked that the sum does not overflow.
        let ends = node.lengths.iter().map(|len| {
            end = end.saturating_add(*len);
            end
        });
        let node = Arc::new(NodeEnds {
            level: node.level,
            ends: ends.collect(),
            children: node.children,
        });
        let mut nodes = self.nodes.lock();
        if nodes.len() >= NODES_MAX {
            nodes.clear();
        }
        nodes.insert(*fingerprint, Arc::clone(&node));
        Ok(node)
    }

    /// Returns true if nodes in memory prove that `[from, to)` consists of holes and of chunks that
    /// are in the reader's cache, or for which `here` returns true. Looks at few chunks.
    pub fn is_known(&self, from: u64, to: u64, here: &dyn Fn(&Fingerprint) -> bool) -> bool {
        let mut at = from;
        for _ in 0..KNOWN_CHUNKS_MAX {
            let Some(leaf) = self.known_piece(at) else {
                return false;
            };
            let f = &leaf.fingerprint;
            if !f.is_hole() && !here(f) && self.reader.cached_chunk(f).is_none() {
                return false;
            }
            at = leaf.offset.saturating_add(leaf.len.max(1));
            if at >= to.min(self.root.len) {
                return true;
            }
        }
        false
    }

    /// Returns the chunk or hole at byte `at` if the nodes above it are in memory.
    pub fn known_piece(&self, at: u64) -> Option<Leaf> {
        let miss = || StoreError::new(StoreErrorKind::NotFound, String::new());
        let Layout::Fixed(log2) = self.root.layout else {
            let load = &mut |f: &Fingerprint| self.nodes.lock().get(f).cloned().ok_or_else(miss);
            return self.variable_leaf(at, load).ok();
        };
        let fingerprint = fixed_chunk(&self.root, log2, at, &mut |node: &Fingerprint| {
            self.reader.cached_chunk(node).ok_or_else(miss)
        });
        Some(Leaf {
            offset: at & !((1 << log2) - 1),
            len: 1 << log2,
            fingerprint: fingerprint.ok()?,
        })
    }
}

/// Converts a store error for front ends.
fn volume_error(e: StoreError) -> VolumeError {
    VolumeError::new(VolumeErrorKind::Io, e)
}

impl Volume for ImageVolume {
    fn info(&self) -> VolumeInfo {
        let preferred = match self.root.layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => 64 << 10,
        };
        VolumeInfo {
            size_bytes: self.root.len,
            read_only: true,
            block_bytes_min: 1,
            block_bytes_preferred: preferred,
            description: self.description.clone(),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.root.len
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> std::result::Result<(), VolumeError> {
        self.read_at(context, offset_bytes, into)
            .map_err(volume_error)
    }

    fn write(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _data: &[u8],
        _durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn flush(&self, _context: RequestContext) -> std::result::Result<(), VolumeError> {
        Ok(())
    }

    fn discard(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _len_bytes: u64,
    ) -> std::result::Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn write_zeroes(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _len_bytes: u64,
        _may_free: bool,
        _durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn extents(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> std::result::Result<(), VolumeError> {
        let end = offset_bytes.saturating_add(len_bytes);
        // Adjacent pieces of one kind are joined, so that clients see runs and not chunks.
        let mut run: Option<Extent> = None;
        let mut stopped = false;
        self.reader
            .visit_pieces(
                &self.root,
                offset_bytes,
                end,
                &mut |offset, len, fingerprint| {
                    let start = offset.max(offset_bytes);
                    let len = offset + len - start;
                    let hole = fingerprint.is_hole();
                    match &mut run {
                        Some(extent) if extent.hole == hole => extent.len_bytes += len,
                        run => {
                            let next = Extent {
                                offset_bytes: start,
                                len_bytes: len,
                                hole,
                                zero: hole,
                            };
                            if let Some(done) = run.replace(next)
                                && visit(done).is_break()
                            {
                                stopped = true;
                                return Ok(ControlFlow::Break(()));
                            }
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                },
            )
            .map_err(volume_error)?;
        if let Some(last) = run.filter(|_| !stopped) {
            let _ = visit(last);
        }
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            fast_path: Some(self),
            changes: Some(self),
            prefetch: None,
        }
    }
}

impl TrackChanges for ImageVolume {
    fn baselines(&self, count_max: usize) -> Vec<String> {
        let history = self.history.as_ref();
        history.map_or_else(Vec::new, |history| history.names(count_max))
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        let before = self.history.as_ref()?.root(baseline)?;
        is_comparable(&before, &self.root).then(|| {
            Arc::new(StateChanges {
                reader: Arc::clone(&self.reader),
                before,
                after: self.root,
            }) as Arc<dyn Changes>
        })
    }
}

impl FastPath for ImageVolume {
    fn is_cached(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let end = offset_bytes.saturating_add(len_bytes);
        self.is_known(offset_bytes, end, &|_| false)
    }
    fn write_now(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _data: &[u8],
    ) -> std::result::Result<bool, VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }
}
