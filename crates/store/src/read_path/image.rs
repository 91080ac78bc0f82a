//! An object of the pool as a read-only disk.
//!
//! Invariant: what is served was verified; damage is an I/O error of the range it hits.

use super::{Reader, expect_len};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::recipe::fixed_chunk;
use format::recipe::{Layout, ObjectRoot};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use units::Fingerprint;
use volume::{
    Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind, VolumeInfo,
};

/// A snapshot of an image, stream or file, served in place.
pub struct ImageVolume {
    reader: Arc<Reader>,
    root: ObjectRoot,
    description: String,
    /// Decoded nodes of an object in variable layout, for look-ups by offset.
    nodes: Mutex<HashMap<Fingerprint, Arc<NodeEnds>>>,
}

/// Nodes that stay decoded: at 40 bytes a child, about 20 MiB at most.
const NODES_MAX: usize = 256;

/// A node of variable layout: where each child ends, counted from the node's first byte.
struct NodeEnds {
    ends: Vec<u64>,
    children: Vec<Fingerprint>,
}

impl ImageVolume {
    /// Over `root`; `description` is one line for humans.
    pub fn new(reader: Arc<Reader>, root: ObjectRoot, description: String) -> Self {
        Self {
            reader,
            root,
            description,
            nodes: Mutex::default(),
        }
    }

    fn read_fixed(&self, log2: u8, offset: u64, into: &mut [u8]) -> Result<()> {
        let chunk_bytes = 1u64 << log2;
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let within = at & (chunk_bytes - 1);
            let take = (chunk_bytes - within).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(take);
            let fingerprint =
                fixed_chunk(&self.root, log2, at, &mut |node| self.reader.chunk(node))?;
            if fingerprint.is_hole() {
                now.fill(0);
            } else {
                let chunk = self.reader.chunk(&fingerprint)?;
                expect_len(
                    &self.root,
                    &fingerprint,
                    &chunk,
                    chunk_bytes.min(self.root.len),
                )?;
                let from = within as usize;
                now.copy_from_slice(chunk.get(from..from + take).unwrap_or_default());
            }
            rest = later;
            at += take as u64;
        }
        Ok(())
    }

    /// In variable layout a look-up is one binary search per level.
    fn read_variable(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let (fingerprint, start, len) = self.variable_chunk(at)?;
            let within = at.saturating_sub(start);
            let take = len.saturating_sub(within).min(rest.len() as u64) as usize;
            if take == 0 {
                let found = "ends before the object does";
                return Err(StoreError::corruption(
                    "recipe",
                    self.root.fingerprint,
                    found,
                ));
            }
            let (now, later) = rest.split_at_mut(take);
            if fingerprint.is_hole() {
                now.fill(0);
            } else {
                let chunk = self.reader.chunk(&fingerprint)?;
                expect_len(&self.root, &fingerprint, &chunk, len)?;
                let from = within as usize;
                now.copy_from_slice(chunk.get(from..from + take).unwrap_or_default());
            }
            rest = later;
            at += take as u64;
        }
        Ok(())
    }

    /// The chunk that holds byte `offset`, where it starts, and its length.
    fn variable_chunk(&self, offset: u64) -> Result<(Fingerprint, u64, u64)> {
        let mut fingerprint = self.root.fingerprint;
        let (mut start, mut len) = (0, self.root.len);
        for level in (1..=self.root.level).rev() {
            if fingerprint.is_hole() {
                break;
            }
            let node = self.node(&fingerprint, level, len)?;
            let number = node.ends.partition_point(|end| *end <= offset - start);
            let before = match number.checked_sub(1) {
                Some(last) => node.ends.get(last).copied().unwrap_or(0),
                None => 0,
            };
            let (Some(child), Some(end)) = (node.children.get(number), node.ends.get(number))
            else {
                let found = "does not reach the byte it should";
                return Err(StoreError::corruption("recipe node", fingerprint, found));
            };
            fingerprint = *child;
            start += before;
            len = end - before;
        }
        Ok((fingerprint, start, len))
    }

    fn node(&self, fingerprint: &Fingerprint, level: u8, len: u64) -> Result<Arc<NodeEnds>> {
        let nodes = || self.nodes.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(node) = nodes().get(fingerprint) {
            return Ok(Arc::clone(node));
        }
        let node = self.reader.recipe_node(fingerprint)?;
        let mut end = 0u64;
        // The decoder has checked that the sum does not overflow.
        let ends: Vec<u64> = node
            .lengths
            .iter()
            .map(|len| {
                end = end.saturating_add(*len);
                end
            })
            .collect();
        if node.level != level || node.layout != Layout::Variable || end != len {
            let found = format!("level {}, {end} bytes, expected {level}, {len}", node.level);
            return Err(StoreError::corruption("recipe node", fingerprint, found));
        }
        let node = Arc::new(NodeEnds {
            ends,
            children: node.children,
        });
        let mut nodes = nodes();
        if nodes.len() >= NODES_MAX {
            nodes.clear();
        }
        nodes.insert(*fingerprint, Arc::clone(&node));
        Ok(node)
    }

    /// The chunk under one byte, when it and the nodes above are in memory.
    fn cached(&self, log2: u8, offset: u64) -> Option<()> {
        let miss = || StoreError::new(StoreErrorKind::NotFound, String::new());
        let fingerprint = fixed_chunk(&self.root, log2, offset, &mut |node: &Fingerprint| {
            self.reader.cached_chunk(node).ok_or_else(miss)
        })
        .ok()?;
        (fingerprint.is_hole() || self.reader.cached_chunk(&fingerprint).is_some()).then_some(())
    }
}

/// What a front end hears of a store error.
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
        _context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> std::result::Result<(), VolumeError> {
        match self.root.layout {
            Layout::Fixed(log2) => self.read_fixed(log2, offset_bytes, into),
            Layout::Variable => self.read_variable(offset_bytes, into),
        }
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
        // Neighbours of one kind are joined, so that clients see runs, not chunks.
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

    fn is_cached(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let Layout::Fixed(log2) = self.root.layout else {
            return false;
        };
        let last = offset_bytes.saturating_add(len_bytes).saturating_sub(1);
        let chunks = (offset_bytes >> log2)..=(last >> log2);
        // Long requests go to a thread anyway: asking for each chunk would cost as much as reading.
        chunks.clone().count() <= 4
            && chunks
                .into_iter()
                .all(|n| self.cached(log2, n << log2).is_some())
    }
}
