//! State of the map of ext2, ext3 and ext4: the map, the owners, the journal's copies, and
//! the work that waits. `steps`, `tables` and `writes` change it; lookups only read it.
//!
//! Invariant: memory stays near `memory_max`: [`Ext::shed`] forgets runs, and forgotten blocks are
//! unknown.

use super::committed::Committed;
use super::geometry::Geometry;
use super::inode::Use;
use super::log::Journal;
use super::pending::{PartialTable, Settling};
use super::records::Records;
use super::walk::Walk;
use crate::budget::{Shed, tree_bytes};
use crate::contents::Contents;
use crate::runs::{Claim, FIXED, FREE, LOOSE, NO_INODE, Run, Runs, TREE};
use crate::source::Meter;
use std::collections::{BTreeSet, VecDeque};

/// Longest read of a step, bytes.
pub const READ_BYTES: u32 = 64 << 10;
/// Most metadata blocks that wait to be read again.
pub const DIRTY_MAX: u64 = 8192;
/// The same for a layout with little memory: each entry of a set takes this part of it at most.
const MEMORY_A_DIRTY_BLOCK: u64 = 512;
const MEMORY_A_COPY: u64 = 160;
/// A group with its place in all lists, and runs for its fixed metadata.
const MEMORY_A_GROUP: u64 = 176;

/// Fixed places of a group, and how much of them is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Its block bitmap; 0 if unknown.
    pub bitmap: u64,
    /// Its inode bitmap; 0 if unknown.
    pub inode_bitmap: u64,
    /// Its inode table; 0 if unknown.
    pub table: u64,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u32,
    /// The block bitmap was never written: all blocks without fixed metadata are free.
    pub is_bitmap_uninit: bool,
}

/// The part that is being read for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Group descriptors, from this block of them.
    Descriptors(u32),
    /// The journal's inode.
    JournalInode,
    /// The journal's superblock.
    JournalHead,
    /// The log: position, sequence, blocks that may still follow.
    Log(u32, u32, u32),
    /// Block bitmaps, from this group.
    Bitmaps(u32),
    /// Inode tables, from this group and inode of it; the end, when it is known.
    Tables(u32, u32, Option<u32>),
    /// Everything was read.
    Done,
}

/// See the module.
pub struct Ext {
    pub geometry: Geometry,
    pub groups: Vec<Group>,
    /// First blocks of inode tables, sorted, and their groups.
    pub tables: Vec<(u64, u32)>,
    /// Block bitmaps, sorted, and their groups.
    pub bitmaps: Vec<(u64, u32)>,
    /// Blocks of primary descriptors, sorted, and their numbers.
    pub descriptors: Vec<(u64, u32)>,
    pub runs: Runs,
    pub records: Records,
    pub log: Option<Journal>,
    /// Extents of the journal, sorted by logical block.
    pub log_extents: Vec<Claim>,
    pub committed: Committed,
    pub phase: Phase,
    /// Metadata blocks that changed, except block bitmaps.
    pub dirty: BTreeSet<u64>,
    /// Groups whose block bitmap changed: applied first.
    pub dirty_bitmaps: BTreeSet<u32>,
    /// Slices in which blocks became unknown that may be free: bitmaps of their groups are read
    /// last.
    pub gaps: BTreeSet<u32>,
    /// Groups of the slice whose gaps are being filled.
    pub gap_groups: std::ops::Range<u32>,
    /// Inodes that lost blocks to one that has changed since: they get what it left.
    pub rivals: BTreeSet<u32>,
    /// Inodes whose trees changed.
    pub changed_trees: BTreeSet<u32>,
    pub walks: VecDeque<Walk>,
    /// The walk that is being entered into the map.
    pub settling: Option<Settling>,
    /// Inodes that were read and not looked at yet.
    pub table: Option<PartialTable>,
    /// Inodes that took blocks, and from whom. Without a journal, inodes are written in any order.
    pub contests: BTreeSet<(u32, u32)>,
    /// The superblock was written.
    pub is_head_dirty: bool,
    /// More was written than could be noted: read everything again.
    pub is_behind: bool,
    pub memory_max: u64,
    /// Slices in which no data of files is recorded.
    pub coarse: Vec<bool>,
    /// Free blocks are not recorded.
    pub is_freeless: bool,
    /// Only fixed metadata is recorded.
    pub is_full: bool,
    /// Blocks of trees that the first reading may still visit.
    pub tree_reads_left: u64,
    /// Times that the map was made coarser, and what was left out then.
    pub shed: Shed,
}

impl Ext {
    /// Knows nothing but the geometry. Fails with the least memory that a map takes.
    pub fn new(geometry: Geometry, memory_max: u64) -> Result<Self, u64> {
        let slice_blocks = Runs::slice_blocks(geometry.blocks, memory_max);
        let runs_bytes = geometry.blocks / u64::from(slice_blocks) * 25;
        let least = 4096 + runs_bytes + u64::from(geometry.groups) * MEMORY_A_GROUP;
        if least > memory_max / 2 {
            return Err(least * 2);
        }
        let runs = Runs::new(geometry.blocks, slice_blocks);
        let is_device = geometry.is_journal_device;
        Ok(Self {
            groups: Vec::new(),
            tables: Vec::new(),
            bitmaps: Vec::new(),
            descriptors: Vec::new(),
            coarse: vec![false; runs.slices() as usize],
            runs,
            records: Records::new(geometry.groups, geometry.group_inodes),
            log: None,
            log_extents: Vec::new(),
            committed: Committed::new(copies_max(memory_max)),
            phase: if is_device {
                Phase::Done
            } else {
                Phase::Descriptors(0)
            },
            dirty: BTreeSet::new(),
            dirty_bitmaps: BTreeSet::new(),
            gaps: BTreeSet::new(),
            gap_groups: 0..0,
            rivals: BTreeSet::new(),
            changed_trees: BTreeSet::new(),
            walks: VecDeque::new(),
            settling: None,
            table: None,
            contests: BTreeSet::new(),
            is_head_dirty: false,
            is_behind: false,
            memory_max,
            is_freeless: false,
            is_full: false,
            tree_reads_left: geometry.blocks,
            shed: Shed::default(),
            geometry,
        })
    }

    /// Sets the memory for the map.
    pub fn set_memory(&mut self, memory_max: u64) {
        self.memory_max = memory_max;
        self.committed.set_most(copies_max(memory_max));
    }

    /// Most entries of each set of what is to be read again.
    pub fn dirty_max(&self) -> usize {
        (self.memory_max / MEMORY_A_DIRTY_BLOCK).min(DIRTY_MAX) as usize
    }

    /// Longest read of a step, bytes: short if memory is.
    pub fn read_bytes(&self) -> u32 {
        let fits = (self.memory_max / 16).min(u64::from(READ_BYTES)) as u32;
        fits.max(self.geometry.block_bytes)
    }

    /// Contents of the block at `offset_bytes`, and the bytes from there that are alike.
    pub fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let (block, inside) = (offset_bytes / block_bytes, offset_bytes % block_bytes);
        if self.geometry.is_journal_device {
            return (Contents::Journal, u64::MAX - offset_bytes);
        }
        if block >= self.geometry.blocks {
            return (Contents::Unknown, u64::MAX - offset_bytes);
        }
        let found = self.runs.find(block);
        let len = found.len.saturating_mul(block_bytes).saturating_sub(inside);
        let contents = match found.owner {
            None => Contents::Unknown,
            Some((NO_INODE, FIXED | LOOSE)) => Contents::Metadata,
            Some((NO_INODE, FREE)) => Contents::Free,
            Some((NO_INODE, _)) => Contents::Unknown,
            Some((_, TREE)) => Contents::Metadata,
            Some((number, logical)) => match self.records.find(number) {
                None => Contents::Unknown,
                Some(record) => match record.used_for {
                    Use::Metadata => Contents::Metadata,
                    Use::Journal => Contents::Journal,
                    Use::Directory => Contents::Directory,
                    Use::File => Contents::File {
                        size_bytes: record.size_bytes,
                        offset_bytes: u64::from(logical) * block_bytes + inside,
                    },
                },
            },
        };
        (contents, len)
    }

    /// Bytes whose contents are known.
    pub fn known_bytes(&self) -> u64 {
        let blocks = match self.geometry.is_journal_device {
            true => self.geometry.blocks,
            false => self.runs.known_blocks(),
        };
        blocks * u64::from(self.geometry.block_bytes)
    }

    /// Memory that this uses, bytes.
    pub fn heap_bytes(&self) -> u64 {
        let places = self.tables.capacity() + self.bitmaps.capacity() + self.descriptors.capacity();
        let numbers = [
            self.dirty_bitmaps.len(),
            self.gaps.len(),
            self.changed_trees.len(),
            self.rivals.len(),
        ];
        let sets: usize = numbers.into_iter().map(|len| tree_bytes(len, 4)).sum();
        let walks: usize = self.walks.iter().map(Walk::memory_bytes).sum();
        let bytes = self.runs.memory_bytes()
            + self.records.memory_bytes()
            + self.groups.capacity() * size_of::<Group>()
            + places * size_of::<(u64, u32)>()
            + self.coarse.capacity()
            + self.log_extents.capacity() * size_of::<Claim>()
            + self.committed.memory_bytes()
            + sets
            + tree_bytes(self.dirty.len(), 8)
            + tree_bytes(self.contests.len(), 8)
            + self.walks.capacity() * size_of::<Walk>()
            + walks
            + self.settling.as_ref().map_or(0, Settling::memory_bytes)
            + self.table.as_ref().map_or(0, PartialTable::memory_bytes);
        bytes as u64
    }

    /// Reads a metadata block as it was last committed.
    pub fn read_block(&self, meter: &mut Meter<'_>, block: u64) -> Option<Vec<u8>> {
        let block_bytes = self.geometry.block_bytes;
        if let (Some(copy), Some(log)) = (self.committed.find(block), &self.log)
            && let Some(place) = self.log_block(copy.position)
            && let Some(bytes) = meter.read(place * u64::from(block_bytes), block_bytes as usize)
            && let Some(bytes) = log.restored(&copy.tag, copy.sequence, bytes)
        {
            return Some(bytes);
        }
        let offset = block.checked_mul(u64::from(block_bytes))?;
        meter.read(offset, block_bytes as usize)
    }

    /// Block of the file system that holds a block of the journal.
    pub fn log_block(&self, position: u32) -> Option<u64> {
        let next = self.log_extents.partition_point(|e| e.logical <= position);
        let extent = self.log_extents.get(next.checked_sub(1)?)?;
        let inside = position - extent.logical;
        (inside < extent.len).then(|| extent.block + u64::from(inside))
    }

    /// Forgets what is worth least until memory suffices: free blocks, then data of files in the
    /// slices with most runs, then everything without a fixed place.
    pub fn shed(&mut self) {
        let (most, enough) = (self.memory_max / 8 * 7, self.memory_max / 4 * 3);
        if self.is_full || self.heap_bytes() <= most {
            return;
        }
        let before = self.heap_bytes();
        if !self.is_freeless {
            self.is_freeless = true;
            for slice in 0..self.runs.slices() {
                self.runs.forget_in(slice, Run::is_free);
            }
        }
        let mut fullest: Vec<(usize, u32)> = (0..self.runs.slices())
            .filter(|slice| self.coarse.get(*slice as usize) == Some(&false))
            .map(|slice| (self.runs.of(slice).len(), slice))
            .collect();
        fullest.sort_unstable();
        while self.heap_bytes() > enough && !fullest.is_empty() {
            // A batch at a time: records are searched once for each.
            let batch = fullest.len().saturating_sub(1 + fullest.len() / 8);
            for (_, slice) in fullest.split_off(batch) {
                self.make_coarse(slice);
            }
            let coarse = &self.coarse;
            let is_coarse = |slice: u32| coarse.get(slice as usize) == Some(&true);
            for group in 0..self.geometry.groups {
                self.records.shed(group, |record| {
                    record.used_for == Use::File && record.slices.iter().all(is_coarse)
                });
            }
        }
        if self.heap_bytes() > most {
            self.forget_all_but_fixed();
        }
        let freed = before.saturating_sub(self.heap_bytes());
        self.shed.note(freed as usize);
    }

    fn forget_all_but_fixed(&mut self) {
        self.is_full = true;
        for slice in 0..self.runs.slices() {
            self.runs.forget_in(slice, |run| !run.is_fixed());
        }
        for group in 0..self.geometry.groups {
            self.records.shed(group, |_| true);
        }
        self.log = None;
        self.committed = Committed::new(0);
        self.walks = VecDeque::new();
        (self.settling, self.table) = (None, None);
        for set in [&mut self.gaps, &mut self.rivals, &mut self.changed_trees] {
            set.clear();
        }
        self.contests.clear();
    }

    fn make_coarse(&mut self, slice: u32) {
        if let Some(coarse) = self.coarse.get_mut(slice as usize) {
            *coarse = true;
        }
        let records = &self.records;
        self.runs.forget_in(slice, |run| {
            let is_owned = run.owner != NO_INODE && run.logical != TREE;
            is_owned
                && records
                    .find(run.owner)
                    .is_none_or(|r| r.used_for == Use::File)
        });
    }
}

/// Most blocks of the journal's copies.
fn copies_max(memory_max: u64) -> usize {
    (memory_max / 8 / MEMORY_A_COPY).min(128 << 10) as usize
}
