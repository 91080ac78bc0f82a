//! Learns from writes: notes which metadata changed, and decodes the journal as it is written. The
//! owner of `Ext` calls [`Ext::wrote`] with every write.
//!
//! Invariant: no reads, and time in proportion to the write. What cannot be noted makes the map
//! unknown or is read again later.

use super::log::{Journal, Record};
use super::state::Ext;
use crate::file_system::Interest;
use crate::runs::{FIXED, FREE, NO_INODE, Run, TREE};

const SUPERBLOCK: std::ops::Range<u64> = 1024..2048;
/// Most runs, and most blocks of one, that a client's request looks at.
const RUNS_LOOKED_AT: usize = 16;
const BLOCKS_LOOKED_AT: u64 = 64;

/// A block with a fixed place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fixed {
    /// A block bitmap of this group.
    Bitmap(u32),
    /// Inodes or descriptors, to be read again.
    Read,
    /// Nothing that changes the map.
    Alike,
}

impl Ext {
    /// A write of `len_bytes` bytes; `None` if the new bytes are not known.
    pub fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        let end = offset_bytes.saturating_add(len_bytes);
        if len_bytes == 0 {
            return;
        }
        if offset_bytes < SUPERBLOCK.end && end > SUPERBLOCK.start {
            self.is_head_dirty = true;
        }
        let block_bytes = u64::from(self.geometry.block_bytes);
        let last = ((end - 1) / block_bytes).min(self.geometry.blocks.saturating_sub(1));
        let mut block = offset_bytes / block_bytes;
        if block > last {
            return;
        }
        self.committed.in_place(block, last + 1 - block);
        while block <= last {
            let found = self.runs.find(block);
            let len = found.len.min(last + 1 - block);
            match found.owner {
                // All of them at once: one by one, each moves those after it.
                Some((NO_INODE, FREE)) => self.runs.forget(block, last + 1 - block, Run::is_free),
                Some((NO_INODE, FIXED)) => {
                    for block in block..block + len {
                        let part = part(bytes, offset_bytes, block, 1, block_bytes);
                        self.note(block, part);
                    }
                }
                Some((NO_INODE, _)) | None => {}
                Some((owner, TREE)) => self.note_tree(owner),
                Some((owner, logical)) if owner == self.geometry.journal_inode => {
                    let part = part(bytes, offset_bytes, block, len, block_bytes);
                    self.wrote_log(logical, len as u32, part);
                }
                Some(_) => {}
            }
            block += len;
        }
    }

    /// Returns whether a write changes what is known. Looks at a few runs only: where there are
    /// more, it may.
    pub fn interest(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> Interest {
        let end = offset_bytes.saturating_add(len_bytes);
        if offset_bytes < SUPERBLOCK.end && end > SUPERBLOCK.start {
            return Interest::Changed;
        }
        let block_bytes = u64::from(self.geometry.block_bytes);
        let mut block = offset_bytes / block_bytes;
        let until = end.div_ceil(block_bytes).min(self.geometry.blocks);
        if block < until && self.committed.has(block, until - block) {
            return Interest::Changed;
        }
        for _ in 0..RUNS_LOOKED_AT {
            if block >= until {
                return Interest::None;
            }
            let found = self.runs.find(block);
            let len = found.len.min(until - block);
            let is_changed = match found.owner {
                Some((NO_INODE, FREE)) => true,
                Some((NO_INODE, FIXED)) => {
                    len > BLOCKS_LOOKED_AT
                        || (block..block + len).any(|block| {
                            let part = part(bytes, offset_bytes, block, 1, block_bytes);
                            self.fixed(block, part) != Fixed::Alike
                        })
                }
                Some((NO_INODE, _)) | None => false,
                Some((_, TREE)) => true,
                Some((owner, _)) if owner == self.geometry.journal_inode => {
                    return Interest::Journal {
                        block_bytes: self.geometry.block_bytes,
                        skip_bytes: (block_bytes - offset_bytes % block_bytes) % block_bytes,
                    };
                }
                Some(_) => false,
            };
            if is_changed {
                return Interest::Changed;
            }
            block += len;
        }
        Interest::Changed
    }

    fn note_tree(&mut self, owner: u32) {
        match self.changed_trees.len() < self.dirty_max() {
            true => _ = self.changed_trees.insert(owner),
            false => self.is_behind = true,
        }
    }

    /// Returns the kind of a written block with a fixed place.
    fn fixed(&self, block: u64, bytes: Option<&[u8]>) -> Fixed {
        let find = |list: &[(u64, u32)]| {
            let at = list.binary_search_by_key(&block, |(block, _)| *block);
            at.ok().and_then(|at| list.get(at)).map(|(_, n)| *n)
        };
        if let Some(group) = find(&self.bitmaps) {
            return Fixed::Bitmap(group);
        }
        let is_table = match self.table_at(block) {
            Some((group, index)) => {
                let inodes = index..index + self.geometry.block_inodes();
                // The kernel zeroes new tables in the background.
                let is_empty = bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
                    && self.records.within(group, inodes).is_empty();
                !is_empty
            }
            None => false,
        };
        match is_table || find(&self.descriptors).is_some() {
            true => Fixed::Read,
            false => Fixed::Alike,
        }
    }

    /// Notes that a block with a fixed place changed, if that matters.
    fn note(&mut self, block: u64, bytes: Option<&[u8]>) {
        let most = self.dirty_max();
        match self.fixed(block, bytes) {
            Fixed::Alike => {}
            Fixed::Bitmap(group) if self.dirty_bitmaps.len() < most => {
                self.dirty_bitmaps.insert(group);
            }
            Fixed::Read if self.dirty.len() < most => {
                self.dirty.insert(block);
            }
            Fixed::Bitmap(_) | Fixed::Read => self.is_behind = true,
        }
    }

    /// Blocks of the journal were written.
    fn wrote_log(&mut self, position: u32, len: u32, bytes: Option<&[u8]>) {
        self.committed.overwritten(position, len);
        let block_bytes = self.geometry.block_bytes as usize;
        for (n, bytes) in (0..len).zip(bytes.unwrap_or_default().chunks_exact(block_bytes)) {
            let at = position.saturating_add(n);
            if at == 0 {
                let log = Journal::decode(bytes);
                self.log = log.filter(|log| log.block_bytes as usize == block_bytes);
                continue;
            }
            let Some(log) = &self.log else {
                continue;
            };
            match log.record(bytes) {
                Some(Record::Descriptor(sequence, tags)) => {
                    let copies = (1..).zip(tags).map(|(n, tag)| (tag, log.after(at, n)));
                    self.committed.copied(sequence, copies);
                }
                Some(Record::Revocation(sequence, blocks)) => {
                    self.committed.revoked(sequence, blocks);
                }
                Some(Record::Commit(sequence)) => self.commit(sequence),
                Some(Record::Superblock) | None => {}
            }
        }
    }

    /// A transaction is complete: notes the metadata in it.
    pub fn commit(&mut self, sequence: u32) {
        for block in self.committed.commit(sequence) {
            match self.runs.find(block).owner {
                Some((NO_INODE, FIXED)) => self.note(block, None),
                Some((owner, TREE)) if owner != NO_INODE => self.note_tree(owner),
                _ => {}
            }
        }
    }
}

/// Bytes of whole blocks of a write: `len` of them from `block`, as far as it covers them.
fn part(
    bytes: Option<&[u8]>,
    offset: u64,
    block: u64,
    len: u64,
    block_bytes: u64,
) -> Option<&[u8]> {
    let start = usize::try_from((block * block_bytes).checked_sub(offset)?).ok()?;
    let bytes = bytes?.get(start..)?;
    let len = usize::try_from(len * block_bytes).ok()?.min(bytes.len());
    let whole = len - len % block_bytes as usize;
    bytes.get(..whole).filter(|bytes| !bytes.is_empty())
}
