//! Follows the map of one inode: extent trees and indirect blocks. `Ext` resumes a walk with each
//! block that it read.
//!
//! Invariant: a walk ends. Depth falls at every level, no block is read twice, and reads and claims
//! have limits. Claims lie within the file system. Damaged branches are left out.

use super::geometry::Geometry;
use super::inode::{Inode, Mapping};
use crate::budget::tree_bytes;
use crate::bytes::{byte, le16, le32, wide};
use crate::runs::{Claim, TREE};
use std::collections::BTreeSet;

const EXTENT_MAGIC: u16 = 0xf30a;
const DEPTH_MAX: u16 = 5;
/// Longest initialised extent; longer numbers mean an unwritten one.
const EXTENT_LEN_MAX: u32 = 32768;
/// Most blocks of a tree that a walk reads.
const READS_MAX: usize = 32 << 10;

/// A block below the root that is still to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Branch {
    block: u64,
    /// Levels from the leaves.
    depth: u16,
    logical: u32,
}

/// See the module.
pub struct Walk {
    /// Number of the inode.
    pub number: u32,
    /// The inode.
    pub inode: Inode,
    /// Takes no blocks from other inodes.
    pub yields: bool,
    /// Blocks found so far.
    pub claims: Vec<Claim>,
    pending: Vec<Branch>,
    visited: BTreeSet<u64>,
    claims_max: usize,
    /// Blocks of all claims.
    claimed: u64,
}

impl Walk {
    /// Begins at the root, with at most `claims_max` runs.
    pub fn new(
        number: u32,
        inode: Inode,
        geometry: &Geometry,
        claims_max: usize,
        yields: bool,
    ) -> Self {
        let mut walk = Self {
            number,
            yields,
            claims: Vec::new(),
            pending: Vec::new(),
            visited: BTreeSet::new(),
            claims_max,
            claimed: 0,
            inode,
        };
        let root = walk.inode.root;
        match walk.inode.mapping {
            Mapping::Nothing => {}
            Mapping::Extents => walk.extents(&root, None, geometry),
            Mapping::Indirect => walk.indirect_root(&root, geometry),
        }
        walk.pending.reverse();
        walk
    }

    /// The next block to read.
    pub fn wants(&self) -> Option<u64> {
        self.pending.last().map(|branch| branch.block)
    }

    /// Continues with the block that [`wants`](Self::wants) named; `None` if it is unreadable.
    pub fn read(&mut self, bytes: Option<&[u8]>, geometry: &Geometry) {
        let Some(branch) = self.pending.pop() else {
            return;
        };
        let Some(bytes) = bytes else {
            return;
        };
        let before = self.pending.len();
        match self.inode.mapping {
            Mapping::Nothing => {}
            Mapping::Extents => self.extents(bytes, Some(branch), geometry),
            Mapping::Indirect => self.indirect(bytes, branch, geometry),
        }
        // Ascending logical blocks, so that claims continue each other.
        if let Some(new) = self.pending.get_mut(before..) {
            new.reverse();
        }
    }

    /// Leaves out what was not read yet.
    pub fn abandon(&mut self) {
        self.pending.clear();
    }

    /// Memory of the walk, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.claims.capacity() * size_of::<Claim>()
            + self.pending.capacity() * size_of::<Branch>()
            + tree_bytes(self.visited.len(), 8)
    }

    fn claim(&mut self, block: u64, len: u32, logical: u32, geometry: &Geometry) {
        let end = block.saturating_add(u64::from(len));
        let claimed = self.claimed.saturating_add(u64::from(len));
        // Extents that overlap: a file has no more blocks than the file system.
        let is_sound = geometry.has_block(block) && claimed.max(end) <= geometry.blocks;
        if len == 0 || !is_sound {
            return;
        }
        self.claimed = claimed;
        if let Some(last) = self.claims.last_mut()
            && last.logical != TREE
            && logical != TREE
            && last.block + u64::from(last.len) == block
            && last.logical.checked_add(last.len) == Some(logical)
            && let Some(joined) = last.len.checked_add(len)
        {
            last.len = joined;
            return;
        }
        if self.claims.len() < self.claims_max {
            self.claims.push(Claim {
                block,
                len,
                logical,
            });
        }
    }

    fn branch(&mut self, branch: Branch, geometry: &Geometry) {
        let is_new = geometry.has_block(branch.block)
            && self.visited.len() < READS_MAX
            && self.visited.insert(branch.block);
        if is_new {
            self.claim(branch.block, 1, TREE, geometry);
            self.pending.push(branch);
        }
    }

    fn extents(&mut self, node: &[u8], from: Option<Branch>, geometry: &Geometry) {
        let header = || {
            let magic = le16(node, 0)? == EXTENT_MAGIC;
            magic.then_some((le16(node, 2)?, le16(node, 6)?))
        };
        let Some((entries, depth)) = header() else {
            return;
        };
        if from.map_or(depth > DEPTH_MAX, |from| depth != from.depth) {
            return;
        }
        let room = (node.len() / 12).saturating_sub(1);
        for n in 0..usize::from(entries).min(room) {
            let at = 12 + n * 12;
            let entry = |field| le32(node, at + field);
            let (Some(logical), Some(second), Some(third)) = (entry(0), entry(4), entry(8)) else {
                return;
            };
            if depth == 0 {
                let len = second & 0xffff;
                let len = if len > EXTENT_LEN_MAX {
                    len - EXTENT_LEN_MAX
                } else {
                    len
                };
                self.claim(wide(second >> 16, third), len, logical, geometry);
            } else {
                let branch = Branch {
                    block: wide(third & 0xffff, second),
                    depth: depth - 1,
                    logical,
                };
                self.branch(branch, geometry);
            }
        }
    }

    fn indirect_root(&mut self, root: &[u8], geometry: &Geometry) {
        let per = geometry.block_bytes / 4;
        let mut logical = 12_u32;
        for n in 0..12 {
            if let Some(block) = le32(root, n * 4).filter(|block| *block != 0) {
                self.claim(u64::from(block), 1, n as u32, geometry);
            }
        }
        for depth in 0..3 {
            let at = (12 + usize::from(depth)) * 4;
            if let Some(block) = le32(root, at).filter(|block| *block != 0) {
                let block = u64::from(block);
                let branch = Branch {
                    block,
                    depth,
                    logical,
                };
                self.branch(branch, geometry);
            }
            let covered = per.checked_pow(u32::from(depth) + 1);
            logical = covered.map_or(TREE, |covered| logical.saturating_add(covered));
        }
    }

    fn indirect(&mut self, bytes: &[u8], from: Branch, geometry: &Geometry) {
        let per = geometry.block_bytes / 4;
        let step = per.checked_pow(u32::from(from.depth)).unwrap_or(u32::MAX);
        let mut logical = from.logical;
        // Without a journal this may still be a block of data.
        let mut pointers = (0..bytes.len() / 4).filter_map(|n| le32(bytes, n * 4));
        if !pointers.all(|block| block == 0 || geometry.has_block(u64::from(block))) {
            return;
        }
        for n in 0..bytes.len() / 4 {
            // A file ends before its last block number does.
            if logical == TREE || byte(bytes, n * 4).is_none() {
                return;
            }
            if let Some(block) = le32(bytes, n * 4).filter(|block| *block != 0) {
                let block = u64::from(block);
                match from.depth.checked_sub(1) {
                    None => self.claim(block, 1, logical, geometry),
                    Some(depth) => self.branch(
                        Branch {
                            block,
                            depth,
                            logical,
                        },
                        geometry,
                    ),
                }
            }
            logical = logical.saturating_add(step);
        }
    }
}
