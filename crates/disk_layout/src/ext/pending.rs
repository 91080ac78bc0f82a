//! Inodes that were read and are not yet in the map: bytes of a table, and the blocks of one inode.
//! `tables` enters them in pieces.
//!
//! Invariant: the memory of both is counted.

use super::walk::Walk;
use crate::runs::Entering;

/// Bytes of a table that were read, and how far they were looked at.
pub struct PartialTable {
    /// Its group.
    pub group: u32,
    /// The next inode of the group.
    pub index: u32,
    /// Bytes that were read.
    pub bytes: Vec<u8>,
    /// Offset of inode `index`, bytes.
    pub at: usize,
}

impl PartialTable {
    /// Bytes of a table from inode `index` of a group on.
    pub fn new(group: u32, index: u32, bytes: Vec<u8>) -> Self {
        Self {
            group,
            index,
            bytes,
            at: 0,
        }
    }

    /// Memory outside of this, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A complete walk on its way into the map.
pub struct Settling {
    /// Its inode.
    pub walk: Walk,
    /// Its blocks.
    pub entering: Entering,
    /// Slices with blocks of it, so far.
    pub slices: Vec<u32>,
}

impl Settling {
    /// Memory outside of this, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes() + self.entering.memory_bytes() + self.slices.capacity() * 4
    }
}
