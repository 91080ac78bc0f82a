//! Reads inodes out of their tables and enters what they own into the map. `steps` calls this at
//! attach and after each write to a table.
//!
//! Invariant: an inode's old runs are removed before its new ones are entered, and only its own.

use super::inode::{Inode, Mapping, Use};
use super::records::{Record, Slices};
use super::state::{Ext, Phase};
use super::walk::Walk;
use crate::layout::runs::{Claim, LOOSE, NOBODY, TREE};

/// Most pairs of inodes that claim the same blocks.
const CONTESTS_MAX: usize = 4096;

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
    /// Processes bytes of a table from inode `index` of a group, at most up to inode `end`.
    pub fn table(&mut self, group: u32, index: u32, end: u32, bytes: &[u8]) {
        let first = group.saturating_mul(self.geometry.group_inodes);
        let size = self.geometry.inode_bytes as usize;
        for (index, inode) in
            (index..end.min(self.geometry.group_inodes)).zip(bytes.chunks_exact(size))
        {
            self.inode(
                first.saturating_add(index).saturating_add(1),
                inode,
                Look::Changed,
            );
        }
    }

    /// Processes one inode, as `look` says.
    pub fn inode(&mut self, number: u32, bytes: &[u8], look: Look) {
        if self.is_full {
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
        match walk.wants() {
            None => self.settle(walk),
            Some(_) => self.walks.push_back(walk),
        }
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
        let before = slice.saturating_sub(self.geometry.first_block as u32);
        for group in before..=slice {
            if group < self.geometry.groups && self.phase == Phase::Done {
                self.gaps.insert(group);
            }
        }
    }

    /// Inodes lost blocks to `winner`: looks at them again when they or the winner change.
    pub fn lost(&mut self, winner: u32, losers: Vec<u32>) {
        for loser in losers {
            self.records.doubt(loser);
            if winner != NOBODY && self.contests.len() < CONTESTS_MAX {
                self.contests.insert((winner, loser));
            }
        }
    }

    /// Enters a complete walk into the map.
    pub fn settle(&mut self, walk: Walk) {
        let Walk {
            number,
            inode,
            claims,
            yields,
            ..
        } = walk;
        if yields {
            self.drop_runs(number);
        } else {
            self.drop_inode(number);
        }
        let is_journal = inode.used_for == Use::Journal;
        if self.geometry.has_block(inode.attributes_block) {
            let claim = Claim {
                block: inode.attributes_block,
                len: 1,
                logical: LOOSE,
            };
            let mut losers = Vec::new();
            self.runs.claim(NOBODY, claim, false, &mut losers, |_| true);
            self.lost(NOBODY, losers);
        }
        let (mut slices, mut rivals) = (Vec::new(), Vec::new());
        let coarse = &self.coarse;
        for claim in &claims {
            let is_data = inode.used_for == Use::File && claim.logical != TREE;
            self.runs
                .claim(number, *claim, yields, &mut rivals, |slice| {
                    let takes = !is_data || coarse.get(slice as usize) == Some(&false);
                    if takes && slices.last() != Some(&slice) {
                        slices.push(slice);
                    }
                    takes
                });
        }
        if yields {
            for rival in rivals {
                self.lost(rival, vec![number]);
            }
        } else {
            self.lost(number, rivals);
        }
        if is_journal {
            self.log_extents = claims.into_iter().filter(|c| c.logical != TREE).collect();
            self.log_extents.sort_unstable_by_key(|claim| claim.logical);
        }
        if !slices.is_empty() {
            let record = Record {
                index: 0,
                fingerprint: inode.fingerprint,
                size_bytes: inode.size_bytes,
                slices: Slices::new(slices),
                used_for: inode.used_for,
                is_doubted: false,
            };
            self.records.replace(number, Some(record));
        }
    }
}
