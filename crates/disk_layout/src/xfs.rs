//! The map of XFS: headers of allocation groups, the log, inodes, and the extents that
//! stand in the inodes themselves. `file_system` attaches it.
//!
//! Invariant: unknown rather than wrong. Maps of inodes in B+tree form, and free space, are
//! unknown. A step reads one block, or enters one inode of it; trees end, because their levels
//! fall.

use super::budget::{Shed, tree_bytes};
use super::bytes::{array, be16, be32, be64, byte, fingerprint};
use super::dirty::Ranges;
use super::file_system::{FileSystem, Interest, Probed, Step};
use super::runs::{Claim, Entering, FIXED, LOOSE, NO_INODE, Runs};
use super::slices::Slices;
use super::source::Meter;
use crate::contents::Contents;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const CHUNK_INODES: u32 = 64;
const GROUPS_MAX: u32 = 1 << 16;
/// Owner of the log's blocks; inodes count from 1.
const LOG: u32 = u32::MAX;
const BLOCKS_TO_READ_MAX: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Geometry {
    block_bytes: u32,
    group_blocks: u32,
    groups: u32,
    group_log: u32,
    inode_bytes: u32,
    block_inodes_log: u32,
    sector_bytes: u32,
    log_start: u64,
    log_blocks: u32,
    identity: [u8; 16],
}

impl Geometry {
    fn decode(sb: &[u8], volume_bytes: u64) -> Option<Self> {
        let geometry = Self {
            block_bytes: be32(sb, 4)?,
            group_blocks: be32(sb, 84)?,
            groups: be32(sb, 88)?,
            group_log: u32::from(byte(sb, 124)?),
            inode_bytes: u32::from(be16(sb, 104)?),
            block_inodes_log: u32::from(byte(sb, 123)?),
            sector_bytes: u32::from(be16(sb, 102)?),
            log_start: be64(sb, 48)?,
            log_blocks: be32(sb, 96)?,
            identity: array(sb, 32)?,
        };
        let blocks = be64(sb, 8)?;
        let all = u64::from(geometry.groups) * u64::from(geometry.group_blocks);
        let is_sound = sb.get(..4)? == b"XFSB"
            && geometry.block_bytes.is_power_of_two()
            && (512..=65536).contains(&geometry.block_bytes)
            && (64..1 << 31).contains(&geometry.group_blocks)
            && (1..=GROUPS_MAX).contains(&geometry.groups)
            && (1..32).contains(&geometry.group_log)
            && u64::from(geometry.group_blocks) <= 1 << geometry.group_log
            && (256..=2048).contains(&geometry.inode_bytes)
            && geometry.inode_bytes.is_power_of_two()
            && geometry.block_bytes >> geometry.block_inodes_log == geometry.inode_bytes
            && (512..=32768).contains(&geometry.sector_bytes)
            && blocks <= all
            && blocks.checked_mul(u64::from(geometry.block_bytes))? <= volume_bytes;
        is_sound.then_some(geometry)
    }

    /// Block of the volume for a block number with the group in its high bits.
    fn linear(&self, block: u64) -> Option<u64> {
        let (group, inside) = (block >> self.group_log, block & ((1 << self.group_log) - 1));
        let is_inside = group < u64::from(self.groups) && inside < u64::from(self.group_blocks);
        is_inside.then(|| group * u64::from(self.group_blocks) + inside)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    File(u64),
    Directory,
    Metadata,
}

/// An inode that owns blocks.
struct Inode {
    used_for: Use,
    /// Of its extents.
    fingerprint: u32,
    slices: Slices,
}

/// A block of inodes that is being looked at.
struct Table {
    block: u64,
    bytes: Vec<u8>,
    next: usize,
}

/// An inode whose extents are being entered, and the slices so far.
type Entered = (Inode, Entering, Vec<u32>);

/// Memory of an inode in the map of them, bytes.
const INODE_BYTES: usize = size_of::<Inode>() + size_of::<u32>();

/// See the module.
pub struct Xfs {
    geometry: Geometry,
    runs: Runs,
    inodes: BTreeMap<u32, Inode>,
    /// Memory of slices of inodes outside of the map, bytes.
    slices_bytes: usize,
    entering: Option<Entered>,
    table: Option<Table>,
    next_group: u32,
    /// Blocks of inode trees still to be read: block and level.
    trees: BTreeSet<(u64, u16)>,
    /// Blocks of the current trees that were read: none is read twice.
    visited: BTreeSet<u64>,
    /// Blocks of inodes, and ranges in which they are to be read.
    known_tables: BTreeSet<u64>,
    dirty: Ranges,
    is_head_dirty: bool,
    memory_max: u64,
    /// Inodes, blocks of inodes and metadata that were left out for lack of memory.
    shed: Shed,
}

impl Xfs {
    /// Looks at the superblock of a part of `len_bytes`. Fails with the least memory that a map
    /// takes.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Probed<Self> {
        let geometry = Geometry::decode(&meter.read(0, 512)?, len_bytes)?;
        // The headers of a group are a run or two.
        let least = 4096 + u64::from(geometry.groups) * 64;
        if least > memory_max / 2 {
            return Some(Err(least * 2));
        }
        let blocks = u64::from(geometry.groups) * u64::from(geometry.group_blocks);
        Some(Ok(Self {
            runs: Runs::new(blocks, Runs::slice_blocks(blocks, memory_max)),
            geometry,
            inodes: BTreeMap::new(),
            slices_bytes: 0,
            entering: None,
            table: None,
            next_group: 0,
            trees: BTreeSet::new(),
            visited: BTreeSet::new(),
            known_tables: BTreeSet::new(),
            dirty: Ranges::default(),
            is_head_dirty: false,
            memory_max,
            shed: Shed::default(),
        }))
    }

    /// Blocks of a write.
    fn blocks(&self, offset_bytes: u64, len_bytes: u64) -> Range<u64> {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let end = offset_bytes.saturating_add(len_bytes).div_ceil(block_bytes);
        offset_bytes / block_bytes..end
    }

    /// The first group whose headers are in a range of blocks.
    fn group_in(&self, written: &Range<u64>) -> Option<u32> {
        let per = u64::from(self.geometry.group_blocks);
        let group = written.start.div_ceil(per);
        let is_in = group < u64::from(self.geometry.groups) && written.contains(&(group * per));
        is_in.then_some(group as u32)
    }

    fn step_part(&mut self, meter: &mut Meter<'_>) -> Step {
        if let Some(entering) = self.entering.take() {
            self.enter_some(entering);
        } else if let Some(table) = self.table.take() {
            self.enter_next(table);
        } else if self.is_head_dirty {
            self.is_head_dirty = false;
            let head = meter.read(0, 512);
            let geometry = head.and_then(|head| Geometry::decode(&head, u64::MAX));
            if geometry != Some(self.geometry) {
                return Step::Lost;
            }
        } else if let Some((block, level)) = self.trees.pop_last() {
            let _ = self.read_tree(meter, block, level);
        } else if let Some(block) = self.next_dirty() {
            self.table = self.read(meter, block).map(|bytes| Table {
                block,
                bytes,
                next: 0,
            });
        } else if self.next_group < self.geometry.groups {
            let group = self.next_group;
            self.next_group += 1;
            let _ = self.read_group(meter, group);
        } else {
            self.visited.clear();
            return Step::Idle;
        }
        Step::More
    }

    /// The next block of inodes that is to be read.
    fn next_dirty(&mut self) -> Option<u64> {
        while let Some(range) = self.dirty.first() {
            let next = self.known_tables.range(range.clone()).next().copied();
            self.dirty.done(next.map_or(range.end, |block| block + 1));
            if next.is_some() {
                return next;
            }
        }
        None
    }

    fn read(&self, meter: &mut Meter<'_>, block: u64) -> Option<Vec<u8>> {
        let bytes = u64::from(self.geometry.block_bytes);
        meter.read(block.checked_mul(bytes)?, bytes as usize)
    }

    fn fix(&mut self, block: u64, len: u32, owner: u32, logical: u32) {
        let claim = Claim {
            block,
            len,
            logical,
        };
        if self.is_full() {
            self.shed.note(16);
        } else {
            self.runs
                .claim(owner, claim, false, &mut Vec::new(), |_| true);
        }
    }

    /// Nothing more is entered: the last eighth is for what has begun.
    fn is_full(&self) -> bool {
        self.heap_bytes() >= self.memory_max / 8 * 7
    }

    fn read_group(&mut self, meter: &mut Meter<'_>, group: u32) -> Option<()> {
        self.visited.clear();
        let geometry = self.geometry;
        let start = u64::from(group) * u64::from(geometry.group_blocks);
        let heads = (4 * geometry.sector_bytes).div_ceil(geometry.block_bytes);
        self.fix(start, heads, NO_INODE, FIXED);
        if group == 0
            && geometry.log_start != 0
            && let Some(log) = geometry.linear(geometry.log_start)
        {
            self.fix(log, geometry.log_blocks, LOG, 0);
        }
        let sector = u64::from(geometry.sector_bytes);
        let at = start * u64::from(geometry.block_bytes) + 2 * sector;
        let head = meter.read(at, geometry.sector_bytes as usize)?;
        if head.get(..4)? == b"XAGI" && be32(&head, 20)? < geometry.group_blocks {
            let level = be32(&head, 24)?.clamp(1, 9) as u16;
            self.trees
                .insert((start + u64::from(be32(&head, 20)?), level - 1));
        }
        Some(())
    }

    fn read_tree(&mut self, meter: &mut Meter<'_>, block: u64, level: u16) -> Option<()> {
        if self.is_full() {
            self.shed.note(self.geometry.block_bytes as usize);
            return None;
        }
        if self.visited.len() >= BLOCKS_TO_READ_MAX || !self.visited.insert(block) {
            return None;
        }
        let node = self.read(meter, block)?;
        let head = match node.get(..4)? {
            b"IAB3" => 56,
            b"IABT" => 16,
            _ => return None,
        };
        if be16(&node, 4)? != level {
            return None;
        }
        self.fix(block, 1, NO_INODE, LOOSE);
        let geometry = self.geometry;
        let per = u64::from(geometry.group_blocks);
        let start = block / per * per;
        let count = usize::from(be16(&node, 6)?);
        if level > 0 {
            let pointers = head + (node.len() - head) / 8 * 4;
            for n in 0..count.min((node.len() - head) / 8) {
                let child = be32(&node, pointers + n * 4)?;
                if child < geometry.group_blocks && self.trees.len() < BLOCKS_TO_READ_MAX {
                    self.trees.insert((start + u64::from(child), level - 1));
                }
            }
            return Some(());
        }
        for n in 0..count.min((node.len() - head) / 16) {
            let first = be32(&node, head + n * 16)?;
            let holes = be16(&node, head + n * 16 + 4)?;
            let blocks = (CHUNK_INODES >> geometry.block_inodes_log).max(1);
            meter.spend(u64::from(blocks) / 8);
            for k in 0..blocks {
                // A bit of the mask stands for four inodes; old file systems count there.
                let bit = k * (CHUNK_INODES / blocks) / 4;
                let is_hole = head == 56 && holes & (1 << bit) != 0;
                let inside = u64::from(first >> geometry.block_inodes_log) + u64::from(k);
                if is_hole || inside >= per {
                    continue;
                }
                if self.is_full() {
                    self.shed.note(64);
                    continue;
                }
                self.fix(start + inside, 1, NO_INODE, LOOSE);
                if self.known_tables.insert(start + inside) {
                    self.dirty.insert(start + inside..start + inside + 1);
                }
            }
        }
        Some(())
    }

    /// Looks at inodes of a block up to one with extents to be entered.
    fn enter_next(&mut self, mut table: Table) {
        let geometry = self.geometry;
        let size = geometry.inode_bytes as usize;
        while let Some(inode) = table.bytes.get(table.next * size..(table.next + 1) * size) {
            let first = table.block.checked_shl(geometry.block_inodes_log);
            let number = first.and_then(|first| first.checked_add(table.next as u64 + 1));
            // Owners have 32 bits; inodes beyond are left out.
            let owner = number.and_then(|number| u32::try_from(number).ok());
            if let Some(owner) = owner.filter(|owner| *owner != LOG) {
                let _ = self.look(owner, inode);
            }
            table.next += 1;
            if self.entering.is_some() {
                self.table = Some(table);
                return;
            }
        }
    }

    fn drop_inode(&mut self, owner: u32) {
        if let Some(inode) = self.inodes.remove(&owner) {
            self.slices_bytes -= inode.slices.heap_bytes();
            for slice in inode.slices.iter() {
                self.runs.forget_in(slice, |run| run.owner == owner);
            }
        }
    }

    /// Looks at an inode, and begins to enter its extents if they changed.
    fn look(&mut self, owner: u32, inode: &[u8]) -> Option<()> {
        let mode = be16(inode, 2)?;
        let is_extents = inode.get(..2)? == b"IN" && mode != 0 && byte(inode, 5)? == 2;
        if !is_extents {
            self.drop_inode(owner);
            return None;
        }
        let is_v3 = byte(inode, 4)? >= 3;
        let has_wide_counts = is_v3 && be64(inode, 120)? & (1 << 4) != 0;
        let count = match has_wide_counts {
            true => be64(inode, 24)?,
            false => u64::from(be32(inode, 76)?),
        };
        let core = if is_v3 { 176 } else { 100 };
        let fork = match byte(inode, 82)? {
            0 => inode.len(),
            offset => core + usize::from(offset) * 8,
        };
        let used_for = match mode & 0xf000 {
            0x8000 => Use::File(be64(inode, 56)?),
            0x4000 => Use::Directory,
            _ => Use::Metadata,
        };
        let extents = inode.get(core..fork)?;
        let fingerprint = fingerprint(&[inode.get(2..6)?, &count.to_le_bytes(), extents]);
        if let Some(known) = self
            .inodes
            .get_mut(&owner)
            .filter(|known| known.fingerprint == fingerprint)
        {
            known.used_for = used_for;
            return Some(());
        }
        self.drop_inode(owner);
        let count = usize::try_from(count).ok()?;
        let claims = self.claims(extents.chunks_exact(16).take(count))?;
        if claims.is_empty() {
            return Some(());
        }
        if self.is_full() {
            self.shed.note(INODE_BYTES + claims.len() * 16);
            return None;
        }
        let inode = Inode {
            used_for,
            fingerprint,
            slices: Slices::new(Vec::new()),
        };
        self.entering = Some((inode, Entering::new(owner, claims), Vec::new()));
        Some(())
    }

    /// Claims of extents; `None` if they are more than the file system has.
    fn claims<'a>(&self, extents: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Claim>> {
        let (mut claims, mut blocks) = (Vec::new(), 0_u64);
        for extent in extents {
            let (high, low) = (be64(extent, 0)?, be64(extent, 8)?);
            let logical = (high & !(1 << 63)) >> 9;
            let start = (high & 0x1ff) << 43 | low >> 21;
            let len = (low & 0x1f_ffff) as u32;
            if let (Some(block), Ok(logical)) =
                (self.geometry.linear(start), u32::try_from(logical))
                && logical.checked_add(len).is_some_and(|end| end < u32::MAX)
            {
                blocks += u64::from(len);
                claims.push(Claim {
                    block,
                    len,
                    logical,
                });
            }
        }
        let geometry = self.geometry;
        let all = u64::from(geometry.groups) * u64::from(geometry.group_blocks);
        (blocks <= all).then_some(claims)
    }

    /// Enters a part of an inode's extents.
    fn enter_some(&mut self, (mut inode, mut entering, mut slices): Entered) {
        let owner = entering.owner;
        let is_done = self
            .runs
            .enter(&mut entering, false, &mut Vec::new(), |slice, _| {
                if slices.last() != Some(&slice) {
                    slices.push(slice);
                }
                true
            });
        if !is_done {
            self.entering = Some((inode, entering, slices));
            return;
        }
        inode.slices = Slices::new(slices);
        self.slices_bytes += inode.slices.heap_bytes();
        self.inodes.insert(owner, inode);
    }
}

impl FileSystem for Xfs {
    fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let (block, inside) = (offset_bytes / block_bytes, offset_bytes % block_bytes);
        let found = self.runs.find(block);
        let contents = match found.owner {
            Some((NO_INODE, FIXED | LOOSE)) => Contents::Metadata,
            Some((LOG, _)) => Contents::Journal,
            Some((owner, logical)) => match self.inodes.get(&owner).map(|inode| inode.used_for) {
                Some(Use::Directory) => Contents::Directory,
                Some(Use::Metadata) => Contents::Metadata,
                Some(Use::File(size_bytes)) => Contents::File {
                    size_bytes,
                    offset_bytes: u64::from(logical) * block_bytes + inside,
                },
                None => Contents::Unknown,
            },
            None => Contents::Unknown,
        };
        (contents, found.len.saturating_mul(block_bytes) - inside)
    }

    fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) {
        if offset_bytes < 512 {
            self.is_head_dirty = true;
        }
        let written = self.blocks(offset_bytes, len_bytes);
        if self.known_tables.range(written.clone()).next().is_some() {
            self.dirty.insert(written.clone());
        }
        // Group headers name the trees of inodes: new chunks show there.
        if let Some(group) = self.group_in(&written) {
            self.next_group = self.next_group.min(group);
        }
    }

    fn interest(&self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) -> Interest {
        let written = self.blocks(offset_bytes, len_bytes);
        Interest::changed_if(
            offset_bytes < 512
                || self.known_tables.range(written.clone()).next().is_some()
                || self.group_in(&written).is_some(),
        )
    }

    fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        let step = self.step_part(meter);
        meter.spend(self.runs.take_work());
        step
    }

    fn set_memory(&mut self, memory_max: u64) {
        self.memory_max = memory_max;
    }

    fn heap_bytes(&self) -> u64 {
        let entering = self.entering.as_ref().map_or(0, |(_, entering, slices)| {
            entering.memory_bytes() + slices.capacity() * 4
        });
        let table = self.table.as_ref().map_or(0, |table| table.bytes.len());
        let bytes = self.runs.memory_bytes()
            + tree_bytes(self.inodes.len(), INODE_BYTES)
            + self.slices_bytes
            + tree_bytes(self.known_tables.len(), 8)
            + tree_bytes(self.visited.len(), 8)
            + tree_bytes(self.trees.len(), 16)
            + self.dirty.memory_bytes()
            + entering
            + table;
        bytes as u64
    }

    fn shed(&self) -> Shed {
        self.shed
    }

    fn known_bytes(&self) -> u64 {
        self.runs.known_blocks() * u64::from(self.geometry.block_bytes)
    }
}
