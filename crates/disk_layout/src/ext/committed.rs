//! Blocks whose newest committed copy is in the journal, because it is not yet in place. `Ext`
//! enters what it sees in the journal, and reads metadata through this.
//!
//! Invariant: bounded. What does not fit is left out: then the write in place, which follows, is
//! the first that is noticed.

use super::log::Tag;
use crate::budget::tree_bytes;
use std::collections::BTreeMap;

/// A copy in the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Its block in the journal.
    pub position: u32,
    /// Its transaction.
    pub sequence: u32,
    /// Its tag.
    pub tag: Tag,
}

/// Most transactions without a commit: a file system has two, the one that fills and the one that
/// commits.
const PENDING_MAX: usize = 16;

#[derive(Default)]
struct Transaction {
    copies: Vec<Copy>,
    revoked: Vec<u64>,
}

impl Transaction {
    fn memory_bytes(&self) -> usize {
        self.copies.capacity() * size_of::<Copy>() + self.revoked.capacity() * size_of::<u64>()
    }
}

/// See the module.
pub struct Committed {
    /// Most blocks of pending transactions, and most blocks with a copy that counts.
    copies_max: usize,
    pending: BTreeMap<u32, Transaction>,
    pending_len: usize,
    by_block: BTreeMap<u64, Copy>,
    by_position: BTreeMap<u32, u64>,
    /// Blocks that did not fit.
    pub left_out: u64,
}

impl Committed {
    /// Nothing yet, and later at most `copies_max` blocks.
    pub fn new(copies_max: usize) -> Self {
        Self {
            copies_max,
            pending: BTreeMap::new(),
            pending_len: 0,
            by_block: BTreeMap::new(),
            by_position: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Sets the most blocks. Those above stay until they are done with.
    pub fn set_most(&mut self, copies_max: usize) {
        self.copies_max = copies_max;
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> usize {
        let lists: usize = self.pending.values().map(Transaction::memory_bytes).sum();
        lists
            + tree_bytes(self.pending.len(), size_of::<Transaction>() + 4)
            + tree_bytes(self.by_block.len(), size_of::<Copy>() + 8)
            + tree_bytes(self.by_position.len(), 12)
    }

    /// The transaction that fills. Where there are too many, the first one is dropped.
    fn pending(&mut self, sequence: u32) -> &mut Transaction {
        if !self.pending.contains_key(&sequence)
            && self.pending.len() >= PENDING_MAX
            && let Some((_, lost)) = self.pending.pop_first()
        {
            self.pending_len -= lost.copies.len() + lost.revoked.len();
            self.left_out += 1;
        }
        self.pending.entry(sequence).or_default()
    }

    /// Notes copies of a transaction that is not committed yet.
    pub fn copied(&mut self, sequence: u32, copies: impl Iterator<Item = (Tag, u32)>) {
        self.pending(sequence);
        for (tag, position) in copies {
            if self.pending_len >= self.copies_max {
                self.left_out += 1;
                continue;
            }
            self.pending_len += 1;
            self.pending(sequence).copies.push(Copy {
                position,
                sequence,
                tag,
            });
        }
    }

    /// Notes revocations of a transaction that is not committed yet.
    pub fn revoked(&mut self, sequence: u32, blocks: Vec<u64>) {
        self.pending(sequence);
        let room = self.copies_max.saturating_sub(self.pending_len);
        self.left_out += blocks.len().saturating_sub(room) as u64;
        self.pending_len += blocks.len().min(room);
        let pending = self.pending(sequence);
        pending.revoked.extend(blocks.into_iter().take(room));
    }

    /// The transaction is complete: its copies count now. Returns their blocks.
    pub fn commit(&mut self, sequence: u32) -> Vec<u64> {
        let Some(done) = self.pending.remove(&sequence) else {
            return Vec::new();
        };
        self.pending_len -= done.copies.len() + done.revoked.len();
        // Others before it were never completed.
        let is_old = |other: &u32| sequence.wrapping_sub(*other) < 1 << 31;
        let old: Vec<u32> = self.pending.keys().copied().filter(is_old).collect();
        for other in old {
            if let Some(lost) = self.pending.remove(&other) {
                self.pending_len -= lost.copies.len() + lost.revoked.len();
            }
        }
        for block in &done.revoked {
            self.in_place(*block, 1);
        }
        let mut blocks = Vec::with_capacity(done.copies.len());
        for copy in done.copies {
            let block = copy.tag.block;
            self.overwritten(copy.position, 1);
            self.in_place(block, 1);
            if self.by_block.len() < self.copies_max {
                self.by_block.insert(block, copy);
                self.by_position.insert(copy.position, block);
                blocks.push(block);
            } else {
                self.left_out += 1;
            }
        }
        blocks
    }

    /// Blocks were written in place: that is newer than any copy.
    pub fn in_place(&mut self, block: u64, len: u64) {
        if self.by_block.is_empty() {
            return;
        }
        let end = block.saturating_add(len);
        while let Some((&block, &copy)) = self.by_block.range(block..end).next() {
            self.by_block.remove(&block);
            self.by_position.remove(&copy.position);
        }
    }

    /// Blocks of the journal were written: copies there are no more.
    pub fn overwritten(&mut self, position: u32, len: u32) {
        let end = position.saturating_add(len);
        while let Some((&position, &block)) = self.by_position.range(position..end).next() {
            self.by_position.remove(&position);
            self.by_block.remove(&block);
        }
    }

    /// Returns true if there is a copy of one of `len` blocks.
    pub fn has(&self, block: u64, len: u64) -> bool {
        let end = block.saturating_add(len);
        self.by_block.range(block..end).next().is_some()
    }

    /// The newest copy of a block.
    pub fn find(&self, block: u64) -> Option<Copy> {
        self.by_block.get(&block).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(block: u64) -> Tag {
        Tag {
            block,
            checksum: 0,
            is_escaped: false,
        }
    }

    #[test]
    fn copies_count_from_their_commit_until_the_write_in_place() {
        let mut committed = Committed::new(10);
        committed.copied(5, [(tag(100), 2), (tag(101), 3)].into_iter());
        assert_eq!(committed.find(100), None);
        assert_eq!(committed.commit(5), [100, 101]);
        assert_eq!(committed.find(101).map(|copy| copy.position), Some(3));
        committed.in_place(100, 1);
        assert_eq!(committed.find(100), None);
        committed.overwritten(3, 1);
        assert_eq!(committed.find(101), None);
        assert!(committed.by_position.is_empty());
    }

    #[test]
    fn a_revocation_voids_earlier_copies_only() {
        let mut committed = Committed::new(10);
        committed.copied(5, [(tag(100), 2), (tag(101), 3)].into_iter());
        committed.commit(5);
        committed.revoked(6, vec![100, 101]);
        committed.copied(6, [(tag(101), 7)].into_iter());
        assert_eq!(committed.commit(6), [101]);
        assert_eq!(committed.find(100), None);
        assert_eq!(committed.find(101).map(|copy| copy.position), Some(7));
    }

    /// A guest may write descriptors for ever.
    #[test]
    fn transactions_without_a_commit_take_bounded_memory() {
        let mut committed = Committed::new(100);
        for sequence in 0..100_000 {
            committed.copied(sequence, [(tag(1), 2)].into_iter());
            committed.revoked(sequence, vec![1]);
        }
        assert!(committed.memory_bytes() < 16 << 10);
        assert!(committed.pending_len <= 100 && committed.pending.len() <= PENDING_MAX);
        assert_eq!(committed.commit(99_999), [1], "the last ones are kept");
    }

    #[test]
    fn transactions_without_a_commit_are_dropped_by_the_next() {
        let mut committed = Committed::new(10);
        committed.copied(u32::MAX, [(tag(1), 2)].into_iter());
        committed.copied(0, [(tag(2), 3)].into_iter());
        assert_eq!(committed.commit(0), [2]);
        assert_eq!((committed.pending_len, committed.pending.len()), (0, 0));
    }
}
