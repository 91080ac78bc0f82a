//! Reads inodes out of their tables and enters what they own into the map. `steps` calls this at
//! attach and after each write to a table.
//!
//! Invariant: an inode's old runs are removed before its new ones are entered, and only its own.
//! Both tables and walks are entered in pieces, whatever their length.

use super::inode::{Inode, Mapping, Use};
use super::pending::{PartialTable, Settling};
use super::records::Record;
use super::state::{Ext, Phase};
use super::walk::Walk;
use crate::runs::{Claim, Entering, LOOSE, NO_INODE, TREE};
use crate::slices::Slices;

/// Most pairs of inodes that claim the same blocks.
const CONTESTS_MAX: usize = 4096;
/// Most inodes of a table whose maps wait to be followed.
const WALKS_MAX: usize = 16;
/// Memory of an inode with one extent, bytes.
const INODE_BYTES: usize = size_of::<Record>() + 16;
/// Work on a table before others have their turn.
const WORK_A_STEP: u64 = 512;

/// Why an inode is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Its table was written: the inode itself may have changed.
    Changed,
    /// Blocks of its tree were written, or it is needed.
    Thorough,
    /// Another inode gave up blocks that it claimed: it takes only what nobody owns.
    Rival,
}

impl Ext {
    /// Looks at inodes of the table that was read, for a while.
    pub fn look_at_table(&mut self, mut table: PartialTable) {
        let first = table.group.saturating_mul(self.geometry.group_inodes);
        let size = self.geometry.inode_bytes as usize;
        let until = self.runs.work() + WORK_A_STEP;
        while let Some(inode) = table.bytes.get(table.at..table.at.saturating_add(size)) {
            if table.index >= self.geometry.group_inodes {
                return;
            }
            if self.walks.len() >= WALKS_MAX || self.runs.work() >= until {
                self.table = Some(table);
                return;
            }
            let number = first.saturating_add(table.index).saturating_add(1);
            self.inode(number, inode, Look::Changed);
            table.index += 1;
            table.at += size;
        }
    }

    /// Processes one inode, as `look` says.
    pub fn inode(&mut self, number: u32, bytes: &[u8], look: Look) {
        if self.is_full {
            if self.phase != Phase::Done {
                self.shed.note(INODE_BYTES);
            }
            return;
        }
        let Some(inode) = Inode::decode(bytes, number, &self.geometry) else {
            self.drop_inode(number);
            return;
        };
        if let Some(record) = self.records.find(number)
            && record.fingerprint == inode.fingerprint
            && look == Look::Changed
            && !record.is_doubted
        {
            if record.size_bytes != inode.size_bytes {
                self.records.resize(number, inode.size_bytes);
            }
            return;
        }
        if inode.mapping == Mapping::Nothing && inode.attributes_block == 0 {
            self.drop_inode(number);
            return;
        }
        let claims_max = (self.memory_max / 8) as usize / size_of::<Claim>();
        let walk = Walk::new(
            number,
            inode,
            &self.geometry,
            claims_max,
            look == Look::Rival,
        );
        self.walks.push_back(walk);
    }

    fn drop_inode(&mut self, number: u32) {
        self.drop_runs(number);
        // The inodes that lost blocks to this one may own them after all.
        let contests = (number, 0)..=(number, u32::MAX);
        while let Some(&contest) = self.contests.range(contests.clone()).next() {
            self.contests.remove(&contest);
            self.rivals.insert(contest.1);
        }
    }

    fn drop_runs(&mut self, number: u32) {
        if let Some(old) = self.records.replace(number, None) {
            for slice in old.slices.iter() {
                self.runs.forget_in(slice, |run| run.owner == number);
                if self.log.is_none() {
                    self.note_gaps(slice);
                }
            }
        }
    }

    /// Without a journal, inodes are written in any order, and blocks of a stale one may be free.
    fn note_gaps(&mut self, slice: u32) {
        if self.phase != Phase::Done {
            return;
        }
        match self.gaps.len() < self.dirty_max() {
            true => _ = self.gaps.insert(slice),
            false => self.is_behind = true,
        }
    }

    /// Inodes lost blocks to `winner`: looks at them again when they or the winner change.
    pub fn lost(&mut self, winner: u32, losers: Vec<u32>) {
        for loser in losers {
            self.records.doubt(loser);
            if winner != NO_INODE && self.contests.len() < CONTESTS_MAX.min(self.dirty_max()) {
                self.contests.insert((winner, loser));
            }
        }
    }

    /// Begins to enter a complete walk into the map.
    pub fn settle(&mut self, mut walk: Walk) {
        if walk.yields {
            self.drop_runs(walk.number);
        } else {
            self.drop_inode(walk.number);
        }
        if self.geometry.has_block(walk.inode.attributes_block) {
            let claim = Claim {
                block: walk.inode.attributes_block,
                len: 1,
                logical: LOOSE,
            };
            let mut losers = Vec::new();
            self.runs
                .claim(NO_INODE, claim, false, &mut losers, |_| true);
            self.lost(NO_INODE, losers);
        }
        let claims = std::mem::take(&mut walk.claims);
        self.enter_some(Settling {
            entering: Entering::new(walk.number, claims),
            walk,
            slices: Vec::new(),
        });
    }

    /// Enters a part of a walk into the map.
    pub fn enter_some(&mut self, mut of: Settling) {
        let (number, yields) = (of.walk.number, of.walk.yields);
        let (mut rivals, mut left_out) = (Vec::new(), 0);
        let (coarse, slices) = (&self.coarse, &mut of.slices);
        let is_file = of.walk.inode.used_for == Use::File;
        let is_done = self
            .runs
            .enter(&mut of.entering, yields, &mut rivals, |slice, is_tree| {
                let is_data = is_file && !is_tree;
                let takes = !is_data || coarse.get(slice as usize) == Some(&false);
                if takes && slices.last() != Some(&slice) {
                    slices.push(slice);
                }
                left_out += usize::from(!takes);
                takes
            });
        if left_out > 0 && self.phase != Phase::Done {
            self.shed.note(INODE_BYTES * left_out);
        }
        if yields {
            for rival in rivals {
                self.lost(rival, vec![number]);
            }
        } else {
            self.lost(number, rivals);
        }
        match is_done {
            true => self.entered(of),
            false => self.settling = Some(of),
        }
    }

    fn entered(&mut self, of: Settling) {
        let inode = of.walk.inode;
        if inode.used_for == Use::Journal {
            let extents = of.entering.claims.into_iter();
            self.log_extents = extents.filter(|claim| claim.logical != TREE).collect();
            self.log_extents.sort_unstable_by_key(|claim| claim.logical);
        }
        if !of.slices.is_empty() {
            let record = Record {
                index: 0,
                fingerprint: inode.fingerprint,
                size_bytes: inode.size_bytes,
                slices: Slices::new(of.slices),
                used_for: inode.used_for,
                is_doubted: false,
            };
            self.records.replace(of.walk.number, Some(record));
        }
    }
}
