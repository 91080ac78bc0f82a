//! Reads group descriptors, and enters metadata with a fixed place into the map. `steps` calls this
//! first, and again when descriptors were written.
//!
//! Invariant: a descriptor that points outside the file system makes its group unknown.

use super::state::{Ext, Group, Phase};
use crate::bytes::{le16, le32, wide};
use crate::runs::{Claim, FIXED, NO_INODE};
use crate::source::Meter;
use std::ops::Range;

const BITMAP_UNINIT: u16 = 2;
const INODES_UNINIT: u16 = 1;

impl Ext {
    fn describe(&self, bytes: &[u8]) -> Option<Group> {
        let is_wide = self.geometry.descriptor_bytes >= 64;
        let high = |at| if is_wide { le32(bytes, at) } else { Some(0) };
        let (bitmap, inode_bitmap) = (
            wide(high(0x20)?, le32(bytes, 0)?),
            wide(high(0x24)?, le32(bytes, 4)?),
        );
        let table = wide(high(0x28)?, le32(bytes, 8)?);
        let flags = if self.geometry.has_uninit {
            le16(bytes, 0x12)?
        } else {
            0
        };
        let unused = if is_wide { le16(bytes, 0x32)? } else { 0 };
        let unused = u32::from(unused) << 16 | u32::from(le16(bytes, 0x1c)?);
        let end = table.checked_add(u64::from(self.geometry.table_blocks()))?;
        let is_sound = [bitmap, inode_bitmap, table]
            .iter()
            .all(|block| self.geometry.has_block(*block))
            && end <= self.geometry.blocks;
        let unused = match (self.geometry.has_uninit, flags & INODES_UNINIT != 0) {
            (false, _) => 0,
            (true, true) => self.geometry.group_inodes,
            (true, false) => unused.min(self.geometry.group_inodes),
        };
        is_sound.then_some(Group {
            bitmap,
            inode_bitmap,
            table,
            unused_inodes: unused,
            is_bitmap_uninit: flags & BITMAP_UNINIT != 0,
        })
    }

    fn fix(&mut self, blocks: Range<u64>) {
        let claim = Claim {
            block: blocks.start,
            len: (blocks.end - blocks.start).min(u64::from(u32::MAX)) as u32,
            logical: FIXED,
        };
        self.runs
            .claim(NO_INODE, claim, false, &mut Vec::new(), |_| true);
    }

    pub fn read_descriptors(&mut self, meter: &mut Meter<'_>, n: u32) -> Option<Phase> {
        let block = self.geometry.descriptor_block(n);
        let count = self.geometry.primary_descriptor_blocks();
        if n == 0 {
            // Lists that grow by themselves take twice the memory.
            let groups = self.geometry.groups as usize;
            self.groups.reserve_exact(groups);
            self.tables.reserve_exact(groups);
            self.bitmaps.reserve_exact(groups);
            self.descriptors.reserve_exact(count as usize);
        }
        // As many as lie side by side. Each byte takes longer than one of a table.
        let most = (self.read_bytes() / 4 / self.geometry.block_bytes).max(1);
        let alike = (1..most.min(count.saturating_sub(n)))
            .take_while(|k| self.geometry.descriptor_block(n + k) == block + u64::from(*k));
        let len = 1 + alike.count() as u32;
        let block_bytes = u64::from(self.geometry.block_bytes);
        let bytes = meter.read(
            block.checked_mul(block_bytes)?,
            (len * self.geometry.block_bytes) as usize,
        )?;
        for k in 0..len {
            self.descriptors.push((block + u64::from(k), n + k));
        }
        for bytes in bytes.chunks_exact(self.geometry.descriptor_bytes as usize) {
            let number = self.groups.len() as u32;
            if number >= self.geometry.groups {
                break;
            }
            let group = self.describe(bytes).unwrap_or_default();
            self.groups.push(group);
            self.fix(self.geometry.heads(number));
            if group.table != 0 {
                self.fix(group.bitmap..group.bitmap + 1);
                self.fix(group.inode_bitmap..group.inode_bitmap + 1);
                let blocks = u64::from(self.geometry.table_blocks());
                self.fix(group.table..group.table + blocks);
                self.tables.push((group.table, number));
                self.bitmaps.push((group.bitmap, number));
            }
        }
        if n + len < count {
            return Some(Phase::Descriptors(n + len));
        }
        self.fix(0..1.max(self.geometry.first_block));
        if self.geometry.has_block(self.geometry.mmp_block) {
            let block = self.geometry.mmp_block;
            self.fix(block..block + 1);
        }
        self.tables.sort_unstable();
        self.bitmaps.sort_unstable();
        self.descriptors.sort_unstable();
        Some(Phase::JournalInode)
    }

    pub fn redescribe(&mut self, n: u32, bytes: &[u8]) -> bool {
        let first = (n * self.geometry.block_descriptors()) as usize;
        for (k, bytes) in bytes
            .chunks_exact(self.geometry.descriptor_bytes as usize)
            .enumerate()
        {
            let new = self.describe(bytes);
            if let (Some(group), Some(new)) = (self.groups.get_mut(first + k), new) {
                let places = |group: &Group| (group.bitmap, group.inode_bitmap, group.table);
                if places(group) != places(&new) {
                    return false;
                }
                *group = new;
            }
        }
        true
    }
}
