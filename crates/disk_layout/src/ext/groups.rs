//! Reads bitmaps and inode tables group by group, for the first time. `steps` calls this.
//!
//! Invariant: parts that were never initialised are not read; one read a step, and groups without a
//! read are bounded.

use super::pending::PartialTable;
use super::state::{Ext, Group, Phase};
use crate::runs::NO_INODE;
use crate::source::Meter;
use std::ops::Range;

/// Most groups that a step handles without a read.
const GROUPS_A_STEP: u32 = 32;
/// A byte of a bitmap takes longer than one of a table: so much less is read.
const BITMAP_PART: u32 = 4;

impl Ext {
    pub fn read_bitmaps(&mut self, meter: &mut Meter<'_>, group: u32) -> Phase {
        let of = |this: &Self, n: u32| this.groups.get(n as usize).copied();
        let mut at = group;
        let end = group.saturating_add(GROUPS_A_STEP);
        while let Some(known) = of(self, at).filter(|_| at < end && !self.is_freeless) {
            if known.bitmap == 0 {
                at += 1;
                continue;
            }
            if known.is_bitmap_uninit {
                let start = self.geometry.group_start(at);
                let len = self.geometry.blocks_of(at);
                let all = std::slice::from_ref(&(start..start + len)).to_vec();
                self.runs
                    .mark_free(start, len, &all, false, &mut Vec::new());
                at += 1;
                continue;
            }
            let bytes = self.read_bytes() / BITMAP_PART;
            let most = (bytes / self.geometry.block_bytes).max(1);
            let follows = |n: &u32| {
                let next = of(self, at + n).filter(|next| !next.is_bitmap_uninit);
                next.is_some_and(|next| next.bitmap == known.bitmap + u64::from(*n))
            };
            let len = 1 + (1..most).take_while(follows).count() as u32;
            let block_bytes = self.geometry.block_bytes;
            let offset = known.bitmap * u64::from(block_bytes);
            let Some(bytes) = meter.read(offset, (len * block_bytes) as usize) else {
                return Phase::Bitmaps(at + len);
            };
            for (n, bytes) in (0..).zip(bytes.chunks_exact(block_bytes as usize)) {
                let newer = self.committed.find(known.bitmap + u64::from(n));
                let newer = newer.and_then(|c| self.read_block(meter, c.tag.block));
                self.bitmap(at + n, newer.as_deref().unwrap_or(bytes), false);
            }
            return Phase::Bitmaps(at + len);
        }
        if at < end || self.is_freeless {
            return Phase::Tables(0, 0, None);
        }
        Phase::Bitmaps(at)
    }

    /// Applies a block bitmap; blocks of inodes stay theirs if it `yields`.
    pub fn bitmap(&mut self, group: u32, bits: &[u8], yields: bool) {
        if self.is_freeless {
            return;
        }
        let start = self.geometry.group_start(group);
        let blocks = self.geometry.blocks_of(group);
        let ratio = u64::from(self.geometry.cluster_blocks);
        let mut free: Vec<Range<u64>> = Vec::new();
        for cluster in 0..blocks.div_ceil(ratio) {
            let byte = bits.get((cluster / 8) as usize).copied().unwrap_or(0xff);
            if byte & (1 << (cluster % 8)) != 0 {
                continue;
            }
            let from = start + cluster * ratio;
            let to = (from + ratio).min(start + blocks);
            match free.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => free.push(from..to),
            }
        }
        let mut losers = Vec::new();
        self.runs
            .mark_free(start, blocks, &free, yields, &mut losers);
        self.lost(NO_INODE, losers);
    }

    pub fn read_table(
        &mut self,
        meter: &mut Meter<'_>,
        group: u32,
        index: u32,
        end: Option<u32>,
    ) -> Phase {
        let Some(known) = self.groups.get(group as usize).copied() else {
            return Phase::Done;
        };
        let Some(end) = end.or_else(|| self.used_inodes(meter, known)) else {
            return Phase::Tables(group + 1, 0, None);
        };
        if index >= end || self.is_full {
            return self.next_table(group + 1);
        }
        let per = self.geometry.block_inodes();
        let block_bytes = self.geometry.block_bytes;
        let most = (self.read_bytes() / block_bytes).max(1);
        let blocks = (end - index).div_ceil(per).min(most);
        let first = known.table + u64::from(index / per);
        let offset = first * u64::from(block_bytes);
        if let Some(mut bytes) = meter.read(offset, (blocks * block_bytes) as usize) {
            for (n, bytes) in (0_u32..).zip(bytes.chunks_exact_mut(block_bytes as usize)) {
                let newer = self.committed.find(first + u64::from(n));
                let newer = newer.and_then(|c| self.read_block(meter, c.tag.block));
                if let Some(newer) = newer.filter(|newer| newer.len() == bytes.len()) {
                    bytes.copy_from_slice(&newer);
                }
            }
            self.table = Some(PartialTable::new(group, index, bytes));
        }
        Phase::Tables(group, index + blocks * per, Some(end))
    }

    /// The next group with inodes in use, of those that a step may pass.
    fn next_table(&self, group: u32) -> Phase {
        let all = self.geometry.group_inodes;
        let end = group.saturating_add(GROUPS_A_STEP);
        let is_used = |n: &u32| {
            let group = self.groups.get(*n as usize);
            group.is_none_or(|g| g.table != 0 && g.unused_inodes < all)
        };
        Phase::Tables((group..end).find(is_used).unwrap_or(end), 0, None)
    }

    /// Inodes of a group up to the last one in use; `None` if that cannot be known.
    fn used_inodes(&self, meter: &mut Meter<'_>, group: Group) -> Option<u32> {
        if group.table == 0 {
            return None;
        }
        if self.geometry.has_uninit {
            return Some(self.geometry.group_inodes - group.unused_inodes);
        }
        let bits = self.read_block(meter, group.inode_bitmap)?;
        let is_used = |n: &u32| {
            let byte = bits.get((n / 8) as usize).copied().unwrap_or(0);
            byte & (1 << (n % 8)) != 0
        };
        let last = (0..self.geometry.group_inodes).rev().find(is_used);
        Some(last.map_or(0, |last| last + 1))
    }
}
