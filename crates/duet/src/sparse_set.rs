//! Sets of numbers as sparse bitmaps: done and seen work. Sessions and progress use them.
//!
//! Invariant: a block of 4096 numbers is either absent (none of them), in `blocks` (some of them)
//! or within a run of `full` (all of them). Work done in order therefore takes one run. Work done
//! out of order takes between two bytes and one bit for each number.

use std::collections::BTreeMap;
use std::ops::Range;

const BLOCK_BITS: u32 = 12;
const BLOCK: u128 = 1 << BLOCK_BITS;
/// Maximum length of a list; a longer one would be no smaller than a bitmap.
const FEW_MAX: usize = 192;

/// Numbers are objects, or parts of objects: see [`crate::WorkSet`].
#[derive(Clone, Default, Debug)]
pub(crate) struct SparseSet {
    blocks: BTreeMap<u128, Block>,
    /// Runs of full blocks: first block, and the first after the run.
    full: BTreeMap<u128, u128>,
    len: u128,
}

#[derive(Clone, Debug)]
enum Block {
    /// In ascending order.
    Few(Vec<u16>),
    Many(Box<[u64; 64]>, u16),
}

fn split(number: u128) -> (u128, u16) {
    (number >> BLOCK_BITS, (number % BLOCK) as u16)
}

impl SparseSet {
    /// Number of elements.
    pub fn len(&self) -> u128 {
        self.len
    }

    /// The lowest element.
    pub fn first(&self) -> Option<u128> {
        let full = self.full.keys().next().map(|block| block * BLOCK);
        let some = self.blocks.iter().next().and_then(|(block, held)| {
            let bit = (0..BLOCK as u16).find(|bit| held.contains(*bit))?;
            Some(block * BLOCK + u128::from(bit))
        });
        full.into_iter().chain(some).min()
    }

    pub fn contains(&self, number: u128) -> bool {
        let (block, bit) = split(number);
        self.is_full(block) || self.blocks.get(&block).is_some_and(|b| b.contains(bit))
    }

    /// Returns false if the number was in the set.
    pub fn insert(&mut self, number: u128) -> bool {
        let (block, bit) = split(number);
        if self.is_full(block) {
            return false;
        }
        let entry = self.blocks.entry(block);
        let is_new = entry.or_insert_with(|| Block::Few(Vec::new())).insert(bit);
        self.close(block);
        self.len += u128::from(is_new);
        is_new
    }

    /// Returns false if the number was not in the set.
    pub fn remove(&mut self, number: u128) -> bool {
        let (block, bit) = split(number);
        self.open(block);
        let Some(held) = self.blocks.get_mut(&block) else {
            return false;
        };
        let was = held.remove(bit);
        if held.len() == 0 {
            self.blocks.remove(&block);
        }
        self.len -= u128::from(was);
        was
    }

    /// Inserts all numbers of a range that ends at 2^127 at most; whole blocks at once.
    pub fn insert_range(&mut self, range: Range<u128>) {
        let first = range.start.next_multiple_of(BLOCK).min(range.end);
        let last = (range.end / BLOCK * BLOCK).max(first);
        for number in (range.start..first).chain(last..range.end) {
            self.insert(number);
        }
        let blocks = first / BLOCK..last / BLOCK;
        if blocks.is_empty() || first == range.end {
            return;
        }
        let held: Vec<u128> = self.blocks.range(blocks.clone()).map(|(b, _)| *b).collect();
        for block in held {
            let held = self.blocks.remove(&block);
            self.len -= held.map_or(0, |b| b.len() as u128);
        }
        let overlap = |(from, to): (&u128, &u128)| {
            let (from, to) = ((*from).max(blocks.start), (*to).min(blocks.end));
            to.saturating_sub(from)
        };
        let within = self.full.range(..blocks.end);
        let already: u128 = within.map(overlap).sum();
        self.len += (blocks.end - blocks.start - already) * BLOCK;
        self.fill(blocks);
    }

    /// Removes all numbers of a range; whole blocks at once.
    pub fn remove_range(&mut self, range: Range<u128>) {
        let (first, last) = (range.start / BLOCK, range.end / BLOCK);
        // Runs that cross the range's ends are cut there.
        self.open(first);
        self.open(last);
        let full = self.full.range(first..last);
        let full: Vec<(u128, u128)> = full.map(|(a, b)| (*a, *b)).collect();
        for (from, to) in full {
            self.full.remove(&from);
            self.len -= (to - from) * BLOCK;
        }
        let held: Vec<u128> = self.blocks.range(first..=last).map(|(b, _)| *b).collect();
        for block in held {
            let whole = block * BLOCK..(block + 1) * BLOCK;
            if range.start <= whole.start && whole.end <= range.end {
                let removed = self.blocks.remove(&block);
                self.len -= removed.map_or(0, |b| b.len() as u128);
            } else {
                let within = whole.start.max(range.start)..whole.end.min(range.end);
                for number in within {
                    self.remove(number);
                }
                self.close(block);
            }
        }
    }

    /// The ranges, ascending, with gaps between them.
    pub fn ranges(&self) -> Vec<Range<u128>> {
        let mut parts: Vec<Range<u128>> = Vec::new();
        let full = self.full.iter().map(|(a, b)| a * BLOCK..b * BLOCK);
        parts.extend(full);
        for (block, held) in &self.blocks {
            let bits = (0..BLOCK as u16).filter(|bit| held.contains(*bit));
            for number in bits.map(|bit| block * BLOCK + u128::from(bit)) {
                match parts.last_mut() {
                    Some(last) if last.end == number => last.end += 1,
                    _ => parts.push(number..number + 1),
                }
            }
        }
        parts.sort_by_key(|r| r.start);
        let mut ranges: Vec<Range<u128>> = Vec::new();
        for part in parts {
            match ranges.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => ranges.push(part),
            }
        }
        ranges
    }

    /// Approximate memory, bytes.
    pub fn memory_bytes(&self) -> usize {
        let entry = size_of::<u128>() + size_of::<Block>() + 8;
        let blocks = self.blocks.values().map(Block::memory_bytes);
        blocks.sum::<usize>() + self.blocks.len() * entry + self.full.len() * 40
    }

    fn run_of(&self, block: u128) -> Option<(u128, u128)> {
        let (from, to) = self.full.range(..=block).next_back()?;
        (block < *to).then_some((*from, *to))
    }

    fn is_full(&self, block: u128) -> bool {
        !self.full.is_empty() && self.run_of(block).is_some()
    }

    /// Makes blocks full that are absent from `blocks`; joins runs that touch.
    fn fill(&mut self, blocks: Range<u128>) {
        let (mut start, mut end) = (blocks.start, blocks.end);
        while let Some((from, to)) = self.full.range(..=end).next_back() {
            let (from, to) = (*from, *to);
            if to < start {
                break;
            }
            self.full.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.full.insert(start, end);
    }

    /// Makes a block a run again if it is full.
    fn close(&mut self, block: u128) {
        let is_full = |b: &Block| b.len() == BLOCK as usize;
        if self.blocks.get(&block).is_some_and(is_full) {
            self.blocks.remove(&block);
            self.fill(block..block + 1);
        }
    }

    /// Turns a full block into a bitmap.
    fn open(&mut self, block: u128) {
        let Some((from, to)) = self.run_of(block) else {
            return;
        };
        self.full.remove(&from);
        let pieces = [(from, block), (block + 1, to)];
        let left = pieces.into_iter().filter(|(from, to)| from < to);
        self.full.extend(left);
        let all = Block::Many(Box::new([u64::MAX; 64]), BLOCK as u16);
        self.blocks.insert(block, all);
    }
}

impl Block {
    fn len(&self) -> usize {
        match self {
            Self::Few(bits) => bits.len(),
            Self::Many(_, count) => usize::from(*count),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Few(bits) => bits.capacity() * 2,
            Self::Many(..) => size_of::<[u64; 64]>(),
        }
    }

    fn contains(&self, bit: u16) -> bool {
        match self {
            Self::Few(bits) => bits.binary_search(&bit).is_ok(),
            Self::Many(words, _) => words
                .get(usize::from(bit / 64))
                .is_some_and(|word| word >> (bit % 64) & 1 == 1),
        }
    }

    fn insert(&mut self, bit: u16) -> bool {
        if let Self::Few(bits) = self {
            let Err(at) = bits.binary_search(&bit) else {
                return false;
            };
            if bits.len() < FEW_MAX {
                bits.insert(at, bit);
                return true;
            }
            let mut words = Box::new([0; 64]);
            let count = bits.len() as u16;
            for bit in bits.iter() {
                set(&mut words, *bit, true);
            }
            *self = Self::Many(words, count);
        }
        let Self::Many(words, count) = self else {
            return false;
        };
        let is_new = set(words, bit, true);
        *count += u16::from(is_new);
        is_new
    }

    fn remove(&mut self, bit: u16) -> bool {
        match self {
            Self::Few(bits) => {
                let found = bits.binary_search(&bit);
                found.is_ok_and(|at| {
                    bits.remove(at);
                    true
                })
            }
            Self::Many(words, count) => {
                let was = set(words, bit, false);
                *count -= u16::from(was);
                was
            }
        }
    }
}

/// Sets the bit. Returns true if that changed it.
fn set(words: &mut [u64; 64], bit: u16, value: bool) -> bool {
    let Some(word) = words.get_mut(usize::from(bit / 64)) else {
        return false;
    };
    let before = *word;
    let mask = 1 << (bit % 64);
    *word = if value { before | mask } else { before & !mask };
    *word != before
}

#[cfg(test)]
mod tests;
