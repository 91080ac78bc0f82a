//! The superblock of ext2, ext3 and ext4, and where groups keep their fixed metadata. `attach`
//! reads it; everything else computes with it.
//!
//! Invariant: a [`Geometry`] is consistent: no shift, product or division over its numbers fails,
//! and it fits the volume.

use crate::bytes::{byte, fingerprint, le16, le32, le64, wide};
use std::ops::Range;

/// Offset of the primary superblock, bytes.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Its length, bytes.
pub const SUPERBLOCK_BYTES: usize = 1024;

const MAGIC: u16 = 0xef53;
const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const COMPAT_ORPHAN_FILE: u32 = 0x1000;
const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_MMP: u32 = 0x100;
const RO_SPARSE_SUPER: u32 = 0x1;
const RO_GDT_CSUM: u32 = 0x10;
const RO_BIGALLOC: u32 = 0x200;
const RO_METADATA_CSUM: u32 = 0x400;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Block size, bytes: 1 to 64 KiB.
    pub block_bytes: u32,
    /// Blocks of the file system.
    pub blocks: u64,
    /// First block of group 0.
    pub first_block: u64,
    /// Blocks a group.
    pub group_blocks: u32,
    /// Blocks a cluster: what a bit of a block bitmap stands for.
    pub cluster_blocks: u32,
    /// Groups.
    pub groups: u32,
    /// Inodes a group.
    pub group_inodes: u32,
    /// Inode size, bytes.
    pub inode_bytes: u32,
    /// First inode that is not reserved.
    pub first_inode: u32,
    /// Inode of the journal; 0 if there is none inside.
    pub journal_inode: u32,
    /// Inodes of quota and orphan files; 0 is none.
    pub hidden_inodes: [u32; 4],
    /// Size of a group descriptor, bytes.
    pub descriptor_bytes: u32,
    /// Descriptors say which bitmaps and tables are initialised.
    pub has_uninit: bool,
    /// Block of multiple-mount protection; 0 if there is none.
    pub mmp_block: u64,
    /// The volume is the journal of another file system.
    pub is_journal_device: bool,
    reserved_gdt_blocks: u32,
    first_meta_group: Option<u32>,
    backups: Backups,
    identity: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Backups {
    Every,
    Sparse,
    Two([u32; 2]),
}

impl Geometry {
    /// Decodes a superblock of a file system in a volume of `volume_bytes`.
    pub fn decode(sb: &[u8], volume_bytes: u64) -> Option<Self> {
        if le16(sb, 0x38)? != MAGIC {
            return None;
        }
        let is_dynamic = le32(sb, 0x4c)? >= 1;
        let feature = |at| if is_dynamic { le32(sb, at) } else { Some(0) };
        let (compat, incompat, ro) = (feature(0x5c)?, feature(0x60)?, feature(0x64)?);
        let log_block = le32(sb, 0x18)?;
        if log_block > 6 {
            return None;
        }
        let block_bytes = 1024 << log_block;
        let is_64bit = incompat & INCOMPAT_64BIT != 0;
        let high = if is_64bit { le32(sb, 0x150)? } else { 0 };
        let blocks = wide(high, le32(sb, 4)?);
        let first_block = u64::from(le32(sb, 0x14)?);
        let group_blocks = le32(sb, 0x20)?;
        let group_inodes = le32(sb, 0x28)?;
        let cluster_blocks = if ro & RO_BIGALLOC != 0 {
            1_u32.checked_shl(le32(sb, 0x1c)?.checked_sub(log_block)?)?
        } else {
            1
        };
        let (inode_bytes, first_inode) = match is_dynamic {
            true => (u32::from(le16(sb, 0x58)?), le32(sb, 0x54)?),
            false => (128, 11),
        };
        let descriptor_bytes = if is_64bit { le16(sb, 0xfe)? } else { 32 };
        let clusters = group_blocks / cluster_blocks;
        let is_sound = first_block <= 1
            && first_block < blocks
            && blocks.checked_mul(u64::from(block_bytes))? <= volume_bytes
            && group_blocks >= 64
            && group_blocks % cluster_blocks == 0
            && (1..=block_bytes * 8).contains(&clusters)
            && (1..=block_bytes * 8).contains(&group_inodes)
            && inode_bytes.is_power_of_two()
            && (128..=block_bytes).contains(&inode_bytes)
            && descriptor_bytes.is_power_of_two()
            && (32..=1024).contains(&descriptor_bytes);
        if !is_sound {
            return None;
        }
        let groups = (blocks - first_block).div_ceil(u64::from(group_blocks));
        let meta = (incompat & INCOMPAT_META_BG != 0).then_some(le32(sb, 0x104)?);
        let orphans = compat & COMPAT_ORPHAN_FILE != 0;
        let mmp = incompat & INCOMPAT_MMP != 0;
        let backups = if compat & COMPAT_SPARSE_SUPER2 != 0 {
            Backups::Two([le32(sb, 0x24c)?, le32(sb, 0x250)?])
        } else if ro & RO_SPARSE_SUPER != 0 {
            Backups::Sparse
        } else {
            Backups::Every
        };
        // Free counts, states, times and checksums change all the time; these fields do not.
        let identity = [0..8, 0x14..0x2c, 0x4c..0x7c, 0xcc..0xe8, 0xfc..0x108];
        let identity = [
            identity.as_slice(),
            &[0x150..0x154, 0x174..0x175, 0x240..0x254],
        ]
        .concat();
        let parts: Vec<&[u8]> = identity.into_iter().filter_map(|r| sb.get(r)).collect();
        byte(sb, SUPERBLOCK_BYTES - 1)?;
        Some(Self {
            block_bytes,
            blocks,
            first_block,
            group_blocks,
            cluster_blocks,
            groups: u32::try_from(groups).ok()?,
            group_inodes,
            inode_bytes,
            first_inode,
            journal_inode: le32(sb, 0xe0)?,
            hidden_inodes: [
                le32(sb, 0x240)?,
                le32(sb, 0x244)?,
                le32(sb, 0x26c)?,
                if orphans { le32(sb, 0x280)? } else { 0 },
            ],
            descriptor_bytes: u32::from(descriptor_bytes),
            has_uninit: ro & (RO_GDT_CSUM | RO_METADATA_CSUM) != 0,
            mmp_block: if mmp { le64(sb, 0x168)? } else { 0 },
            is_journal_device: incompat & INCOMPAT_JOURNAL_DEV != 0,
            reserved_gdt_blocks: u32::from(le16(sb, 0xce)?),
            first_meta_group: meta,
            backups,
            identity: fingerprint(&parts),
        })
    }

    /// First block of a group.
    pub fn group_start(&self, group: u32) -> u64 {
        self.first_block + u64::from(group) * u64::from(self.group_blocks)
    }

    /// Blocks of a group: the last one may be shorter.
    pub fn blocks_of(&self, group: u32) -> u64 {
        self.blocks
            .saturating_sub(self.group_start(group))
            .min(u64::from(self.group_blocks))
    }

    /// Blocks of an inode table.
    pub fn table_blocks(&self) -> u32 {
        let bytes = u64::from(self.group_inodes) * u64::from(self.inode_bytes);
        bytes.div_ceil(u64::from(self.block_bytes)) as u32
    }

    /// Inodes a block of a table.
    pub fn block_inodes(&self) -> u32 {
        self.block_bytes / self.inode_bytes
    }

    /// Group descriptors a block.
    pub fn block_descriptors(&self) -> u32 {
        self.block_bytes / self.descriptor_bytes
    }

    /// Returns true for blocks that files may own.
    pub fn has_block(&self, block: u64) -> bool {
        block >= self.first_block && block < self.blocks
    }

    fn has_superblock(&self, group: u32) -> bool {
        let is_power_of = |of: u32| {
            let mut power = of;
            while power < group {
                power = power.saturating_mul(of);
            }
            power == group
        };
        group == 0
            || match self.backups {
                Backups::Every => true,
                Backups::Two(two) => two.contains(&group),
                Backups::Sparse => group == 1 || [3, 5, 7].into_iter().any(is_power_of),
            }
    }

    fn descriptor_blocks(&self) -> u32 {
        self.groups.div_ceil(self.block_descriptors())
    }

    fn is_meta(&self, group: u32) -> bool {
        let meta_group = group / self.block_descriptors();
        self.first_meta_group
            .is_some_and(|first| meta_group >= first)
    }

    /// Where the superblock of a group is, if it has one; block 1 of 1 KiB blocks in any case.
    fn head_of(&self, group: u32) -> u64 {
        match self.group_start(group) {
            0 if self.block_bytes == 1024 => 1,
            start => start,
        }
    }

    /// Superblock and descriptors of a group: blocks with a fixed place.
    pub fn heads(&self, group: u32) -> Range<u64> {
        let start = self.head_of(group);
        let head = u64::from(self.has_superblock(group));
        let len = if self.is_meta(group) {
            let per = self.block_descriptors();
            let has_descriptors = [0, 1, per - 1].contains(&(group % per));
            head + u64::from(has_descriptors)
        } else if head == 1 {
            let old = match self.first_meta_group {
                Some(first) => first.min(self.descriptor_blocks()),
                None => self
                    .descriptor_blocks()
                    .saturating_add(self.reserved_gdt_blocks),
            };
            1 + u64::from(old)
        } else {
            0
        };
        start..(start + len).min(self.blocks)
    }

    /// Block with the `n`th block of primary descriptors.
    pub fn descriptor_block(&self, n: u32) -> u64 {
        let group = n.saturating_mul(self.block_descriptors());
        if self.is_meta(group) {
            self.head_of(group) + u64::from(self.has_superblock(group))
        } else {
            self.head_of(0) + 1 + u64::from(n)
        }
    }

    /// Number of blocks of primary descriptors.
    pub fn primary_descriptor_blocks(&self) -> u32 {
        self.descriptor_blocks()
    }
}
