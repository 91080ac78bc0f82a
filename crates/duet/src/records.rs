//! Records of pages with pending events: a dense array, and a hash table that grows by one bucket.
//! A shard calls this.
//!
//! Invariant: records occupy 0..len without holes. Each is in the chain of its bucket exactly once.
//! The last record replaces a removed one, so a downward walk meets every record that existed when
//! the walk began.

use crate::hash;
use crate::merge::Pending;
use crate::page::{Page, Space};

/// Maximum number of sessions. One more would not fit into a record of 56 bytes.
pub(crate) const SESSIONS_MAX: usize = 15;
/// Records in one allocation.
const BLOCK: usize = 32;
const NONE: u32 = u32::MAX;
/// A bucket is added when there are more records than buckets. One is removed when 4 buckets have
/// fewer than this many records.
const RECORDS_OF_4_BUCKETS_MIN: usize = 3;

/// A page and its pending events for each session.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    object: u64,
    index: u64,
    generation: u32,
    next: u32,
    /// By number of session; zero if there are none.
    pub pending: [Pending; SESSIONS_MAX],
    space: Space,
}

const _: () = assert!(size_of::<Record>() == 56);

impl Record {
    pub fn page(&self) -> Page {
        Page {
            space: self.space,
            object: self.object,
            generation: self.generation,
            index: self.index,
        }
    }

    pub fn is_reported(&self) -> bool {
        self.pending.iter().all(|p| p.is_none())
    }
}

const FREE: Record = Record {
    object: 0,
    index: 0,
    generation: 0,
    next: NONE,
    pending: [Pending::NONE; SESSIONS_MAX],
    space: Space::Containers,
};

/// See the module's head.
pub(crate) struct Records {
    seed: u64,
    #[allow(clippy::vec_box, reason = "records do not move when blocks are added")]
    blocks: Vec<Box<[Record; BLOCK]>>,
    len: usize,
    /// First record of each chain.
    buckets: Vec<u32>,
}

impl Records {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            blocks: Vec::new(),
            len: 0,
            buckets: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory in bytes, including the allocator's overhead.
    pub fn memory_bytes(&self) -> usize {
        let block = size_of::<[Record; BLOCK]>() + 16;
        let blocks = self.blocks.len() * block;
        blocks + self.blocks.capacity() * size_of::<usize>() + self.buckets.capacity() * 4
    }

    pub fn get(&self, at: usize) -> Option<&Record> {
        (at < self.len).then(|| self.record(at as u32)).flatten()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut Record> {
        (at < self.len).then_some(())?;
        self.blocks.get_mut(at / BLOCK)?.get_mut(at % BLOCK)
    }

    /// Returns the position of a page's record.
    pub fn find(&self, hash: u64, page: &Page) -> Option<usize> {
        let bucket = self.bucket_of(hash)?;
        let mut at = self.buckets.get(bucket).copied()?;
        while let Some(record) = self.record(at) {
            if record.index == page.index && record.page() == *page {
                return Some(at as usize);
            }
            at = record.next;
        }
        None
    }

    /// Adds a record for a page that has none. Returns its position.
    pub fn push(&mut self, hash: u64, page: &Page) -> usize {
        let at = self.len;
        if at == self.blocks.len() * BLOCK {
            if self.blocks.len() == self.blocks.capacity() {
                self.blocks.reserve_exact(self.blocks.len() / 8 + 4);
            }
            self.blocks.push(Box::new([FREE; BLOCK]));
        }
        self.len += 1;
        if self.len > self.buckets.len() {
            self.split_a_bucket();
        }
        let bucket = self.bucket_of(hash).unwrap_or_default();
        let first = self.buckets.get_mut(bucket);
        let next = first.map_or(NONE, |first| std::mem::replace(first, at as u32));
        if let Some(record) = self.get_mut(at) {
            *record = Record {
                object: page.object,
                index: page.index,
                generation: page.generation,
                next,
                pending: FREE.pending,
                space: page.space,
            };
        }
        at
    }

    /// Removes a record; the last one takes its place.
    pub fn remove(&mut self, at: usize) {
        let Some(record) = self.get(at).copied() else {
            return;
        };
        self.replace_link(&record, at as u32, record.next);
        let last = self.len - 1;
        if last != at
            && let Some(moved) = self.get(last).copied()
        {
            self.replace_link(&moved, last as u32, at as u32);
            if let Some(hole) = self.get_mut(at) {
                *hole = moved;
            }
        }
        self.len = last;
        while self.len * 4 < self.buckets.len() * RECORDS_OF_4_BUCKETS_MIN {
            self.join_a_bucket();
        }
        // One spare block stays, so that a record that comes and goes does not allocate each time.
        let blocks_max = self.len.div_ceil(BLOCK) + 1;
        self.blocks.truncate(blocks_max);
        if self.blocks.capacity() > blocks_max + blocks_max / 4 + 8 {
            self.blocks.shrink_to(blocks_max + blocks_max / 8);
        }
    }

    fn record(&self, at: u32) -> Option<&Record> {
        self.blocks
            .get(at as usize / BLOCK)?
            .get(at as usize % BLOCK)
    }

    fn hash_of(&self, record: &Record) -> u64 {
        hash::hash(self.seed, &record.page())
    }

    /// Linear hashing: the buckets of one power of two, of which the first ones are split already.
    fn bucket_of(&self, hash: u64) -> Option<usize> {
        let buckets = self.buckets.len();
        let mask = buckets.checked_next_power_of_two()?.checked_sub(1)?;
        // The low bits have selected the shard.
        let hash = (hash >> 32) as usize & mask;
        (buckets > 0).then_some(if hash < buckets {
            hash
        } else {
            hash & (mask >> 1)
        })
    }

    /// Replaces the link to `from` in the record's chain by a link to `to`.
    fn replace_link(&mut self, record: &Record, from: u32, to: u32) {
        let bucket = self.bucket_of(self.hash_of(record)).unwrap_or_default();
        let Some(first) = self.buckets.get_mut(bucket) else {
            return;
        };
        if *first == from {
            *first = to;
            return;
        }
        let mut at = *first;
        while let Some(before) = self.get_mut(at as usize) {
            if before.next == from {
                before.next = to;
                return;
            }
            at = before.next;
        }
        debug_assert!(false, "a record is in its chain");
    }

    fn split_a_bucket(&mut self) {
        let added = self.buckets.len();
        if added == self.buckets.capacity() {
            self.buckets.reserve_exact(added / 8 + 16);
        }
        self.buckets.push(NONE);
        // The bucket whose records may now belong to the new one.
        let split = added.checked_ilog2().map(|bits| added - (1 << bits));
        let Some(first) = split.and_then(|split| self.buckets.get_mut(split)) else {
            return;
        };
        let mut at = std::mem::replace(first, NONE);
        while let Some(record) = self.record(at).copied() {
            let bucket = self.bucket_of(self.hash_of(&record)).unwrap_or_default();
            self.link_first(bucket, at);
            at = record.next;
        }
    }

    fn join_a_bucket(&mut self) {
        let Some(mut at) = self.buckets.pop() else {
            return;
        };
        while let Some(record) = self.record(at).copied() {
            let bucket = self.bucket_of(self.hash_of(&record)).unwrap_or_default();
            self.link_first(bucket, at);
            at = record.next;
        }
        if self.buckets.capacity() > self.buckets.len() + self.buckets.len() / 4 + 32 {
            self.buckets
                .shrink_to(self.buckets.len() + self.buckets.len() / 8);
        }
    }

    fn link_first(&mut self, bucket: usize, at: u32) {
        let first = self.buckets.get_mut(bucket);
        let next = first.map_or(NONE, |first| std::mem::replace(first, at));
        if let Some(record) = self.get_mut(at as usize) {
            record.next = next;
        }
    }
}

#[cfg(test)]
mod tests;
