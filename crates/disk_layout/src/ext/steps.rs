//! Reads a file system in bounded steps: what was written first, then what was never read. `Ext`'s
//! owner calls [`Ext::step`] until it answers [`Step::Idle`].
//!
//! Invariant: a step makes a few reads of at most `READ_BYTES` each, or enters a bounded part of
//! what was read before.

use super::geometry::{Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use super::pending::PartialTable;
use super::state::{Ext, Phase};
use super::tables::Look;
use crate::file_system::Step;
use crate::source::Meter;

impl Ext {
    /// Does one step.
    pub fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        let step = self.step_part(meter);
        self.shed();
        meter.spend(self.runs.take_work());
        step
    }

    fn step_part(&mut self, meter: &mut Meter<'_>) -> Step {
        if let Some(settling) = self.settling.take() {
            self.enter_some(settling);
        } else if let Some(mut walk) = self.walks.pop_front() {
            if walk.wants().is_some() && !self.may_read_tree() {
                walk.abandon();
            }
            if let Some(block) = walk.wants() {
                let bytes = self.read_block(meter, block);
                walk.read(bytes.as_deref(), &self.geometry);
            }
            match walk.wants() {
                Some(_) => self.walks.push_front(walk),
                None => self.settle(walk),
            }
        } else if let Some(table) = self.table.take() {
            self.look_at_table(table);
        } else if self.is_head_dirty {
            self.is_head_dirty = false;
            let head = meter.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
            let geometry = head.and_then(|head| Geometry::decode(&head, u64::MAX));
            if geometry.as_ref() != Some(&self.geometry) {
                return Step::Lost;
            }
        } else if let Some(group) = self.dirty_bitmaps.pop_first() {
            self.reread_bitmap(meter, group, false);
        } else if let Some(block) = self.dirty.pop_first() {
            if !self.reread(meter, block) {
                return Step::Lost;
            }
        } else if let Some(number) = self.changed_trees.pop_first() {
            self.reread_inode(meter, number, Look::Thorough);
        } else if let Some(number) = self.rivals.pop_first() {
            self.reread_inode(meter, number, Look::Rival);
        } else if let Some(group) = self.gap_groups.next() {
            self.reread_bitmap(meter, group, true);
        } else if let Some(slice) = self.gaps.pop_first() {
            self.gap_groups = self.groups_of(slice);
        } else {
            return self.advance(meter);
        }
        Step::More
    }

    /// At attach, trees have at most as many blocks as the file system, even if they claim more.
    fn may_read_tree(&mut self) -> bool {
        if self.phase == Phase::Done {
            return true;
        }
        let left = self.tree_reads_left.checked_sub(1);
        self.tree_reads_left = left.unwrap_or_default();
        left.is_some()
    }

    fn advance(&mut self, meter: &mut Meter<'_>) -> Step {
        self.phase = match self.phase {
            Phase::Descriptors(n) => match self.read_descriptors(meter, n) {
                Some(phase) => phase,
                None => {
                    let block = self.geometry.descriptor_block(n);
                    let at = block.saturating_mul(u64::from(self.geometry.block_bytes));
                    return Step::Unreadable(at);
                }
            },
            Phase::JournalInode => {
                self.reread_inode(meter, self.geometry.journal_inode, Look::Thorough);
                Phase::JournalHead
            }
            Phase::JournalHead => self.read_log_head(meter),
            Phase::Log(position, sequence, left) => self.read_log(meter, position, sequence, left),
            Phase::Bitmaps(group) => self.read_bitmaps(meter, group),
            Phase::Tables(group, index, end) => self.read_table(meter, group, index, end),
            Phase::Done if self.is_behind => {
                self.is_behind = false;
                Phase::Bitmaps(0)
            }
            Phase::Done => return Step::Idle,
        };
        Step::More
    }

    /// Reads a changed metadata block again. Returns false if the geometry changed with it.
    fn reread(&mut self, meter: &mut Meter<'_>, block: u64) -> bool {
        let Some(bytes) = self.read_block(meter, block) else {
            return true;
        };
        if let Some((group, index)) = self.table_at(block) {
            self.table = Some(PartialTable::new(group, index, bytes));
        } else if let Ok(at) = self.descriptors.binary_search_by_key(&block, |(b, _)| *b)
            && let Some(&(_, n)) = self.descriptors.get(at)
        {
            return self.redescribe(n, &bytes);
        }
        true
    }

    fn reread_bitmap(&mut self, meter: &mut Meter<'_>, group: u32, yields: bool) {
        let known = self.groups.get(group as usize).copied().unwrap_or_default();
        if known.bitmap != 0
            && !known.is_bitmap_uninit
            && let Some(bytes) = self.read_block(meter, known.bitmap)
        {
            self.bitmap(group, &bytes, yields);
        }
    }

    /// Groups with blocks in a slice of the map.
    fn groups_of(&self, slice: u32) -> std::ops::Range<u32> {
        let group = |block: u64| {
            let inside = block.saturating_sub(self.geometry.first_block);
            (inside / u64::from(self.geometry.group_blocks)) as u32
        };
        let (start, end) = (self.runs.start_of(slice), self.runs.start_of(slice + 1));
        group(start)..self.geometry.groups.min(group(end) + 1)
    }

    /// Group and first inode of a block of an inode table.
    pub fn table_at(&self, block: u64) -> Option<(u32, u32)> {
        let next = self.tables.partition_point(|(start, _)| *start <= block);
        let &(start, group) = self.tables.get(next.checked_sub(1)?)?;
        let inside = u32::try_from(block - start).ok()?;
        let is_inside = inside < self.geometry.table_blocks();
        is_inside.then(|| (group, inside * self.geometry.block_inodes()))
    }

    fn reread_inode(&mut self, meter: &mut Meter<'_>, number: u32, look: Look) {
        let Some(index) = number.checked_sub(1) else {
            return;
        };
        let (group, index) = (
            index / self.geometry.group_inodes,
            index % self.geometry.group_inodes,
        );
        let table = self.groups.get(group as usize).map_or(0, |g| g.table);
        if table == 0 {
            return;
        }
        let per = self.geometry.block_inodes();
        let block = table + u64::from(index / per);
        let at = ((index % per) * self.geometry.inode_bytes) as usize;
        if let Some(bytes) = self.read_block(meter, block)
            && let Some(bytes) = bytes.get(at..at + self.geometry.inode_bytes as usize)
        {
            self.inode(number, bytes, look);
        }
    }
}
