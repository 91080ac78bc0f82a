//! Implements a hash table with one 64-bit word for each entry: the top of the hash, and a number.
//! Places, contents and dirty pages use it.
//!
//! Invariant: words are in ascending order, each at its home or to the right of it, with no empty
//! word between home and word. A search therefore stops at the first larger word, and a removed
//! entry leaves no mark. The table knows no keys: the caller compares them. It grows by a
//! twentieth, so that an entry takes 8.4 to 8.9 bytes.

const EMPTY: u64 = u64::MAX;
/// Maximum load: 19 of 20 homes.
const LOAD: (usize, usize) = (19, 20);

/// The hash table. Numbers have `ID_BITS` bits, and are never all ones.
pub(crate) struct HashTable<const ID_BITS: u32> {
    /// One word for each home, and a few more to the right of the last.
    words: Vec<u64>,
    homes: usize,
    len: usize,
}

impl<const ID_BITS: u32> HashTable<ID_BITS> {
    /// Upper limit of numbers, exclusive.
    pub const IDS_MAX: u32 = (1 << ID_BITS) - 1;

    /// Makes an empty table with address space for that many entries. Memory is taken as they come.
    pub fn with_room(entries: usize) -> Self {
        let (taken, of) = LOAD;
        Self {
            words: Vec::with_capacity(entries * (of + 1) / taken + 64),
            homes: 0,
            len: 0,
        }
    }

    fn word(hash: u64, id: u32) -> u64 {
        (hash >> ID_BITS << ID_BITS) | u64::from(id)
    }

    /// Depends on the hash alone: entries of one hash have one home.
    fn home(&self, word: u64) -> usize {
        let hash = word >> ID_BITS << ID_BITS;
        ((u128::from(hash) * self.homes as u128) >> 64) as usize
    }

    /// Returns the position of `word`, or the position at which to insert it.
    fn position(&self, word: u64) -> usize {
        let home = self.home(word);
        let words = self.words.get(home..).unwrap_or_default();
        let smaller = words.iter().take_while(|w| **w < word).count();
        home + smaller
    }

    /// Yields the positions and words of the entries whose hash agrees in the top `bits`.
    fn agreeing(&self, hash: u64, bits: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        let below = 64 - bits.min(64 - ID_BITS);
        let first = hash >> below << below;
        let last = first | ((1 << below) - 1);
        let (start, last_home) = (self.position(first), self.home(last));
        let words = self.words.get(start..).unwrap_or_default();
        let placed = (start..).zip(words.iter().copied());
        // With fewer bits than a home needs there may be gaps between the homes.
        let in_range = move |(at, w): &(usize, u64)| *w <= last || (*w == EMPTY && *at < last_home);
        placed.take_while(in_range).filter(|(_, w)| *w != EMPTY)
    }

    /// Yields the numbers of all entries whose hash agrees in the kept bits.
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let id = |(_, word)| (word & u64::from(Self::IDS_MAX)) as u32;
        self.agreeing(hash, 64 - ID_BITS).map(id)
    }

    /// Yields numbers of entries in the order of their words, from word `from` on, each with the
    /// word at which to continue. Entries added or removed meanwhile do not affect the others.
    pub fn entries_from(&self, from: u64) -> impl Iterator<Item = (u32, u64)> + '_ {
        let words = self.words.get(self.position(from)..).unwrap_or_default();
        let taken = words.iter().filter(|w| **w != EMPTY);
        taken.map(|w| ((w & u64::from(Self::IDS_MAX)) as u32, w + 1))
    }

    /// Adds an entry. The same hash may occur many times.
    pub fn insert(&mut self, hash: u64, id: u32) {
        debug_assert!(id < Self::IDS_MAX, "all ones mean empty");
        if (self.len + 1) * LOAD.1 > self.homes * LOAD.0 {
            self.grow();
        }
        let word = Self::word(hash, id);
        let at = self.position(word);
        let rest = self.words.get(at..).unwrap_or_default();
        let shifted = rest.iter().take_while(|w| **w != EMPTY).count();
        if shifted == rest.len() {
            push_exactly(&mut self.words, EMPTY);
        }
        self.words.copy_within(at..at + shifted, at + 1);
        if let Some(here) = self.words.get_mut(at) {
            *here = word;
        }
        self.len += 1;
    }

    /// Removes one entry of that number whose hash agrees in the top `bits`. Returns false when
    /// there is none.
    pub fn remove_with(&mut self, hash: u64, bits: u32, id: u32) -> bool {
        let is_it = |(_, word): &(usize, u64)| word & u64::from(Self::IDS_MAX) == u64::from(id);
        let Some((at, _)) = self.agreeing(hash, bits).find(is_it) else {
            return false;
        };
        let later = self.words.get(at + 1..).unwrap_or_default();
        let moved = (at + 1..)
            .zip(later)
            .take_while(|(position, w)| **w != EMPTY && self.home(**w) < *position)
            .count();
        self.words.copy_within(at + 1..at + 1 + moved, at);
        if let Some(last) = self.words.get_mut(at + moved) {
            *last = EMPTY;
        }
        self.len -= 1;
        true
    }

    /// Removes one entry of that hash and number. Returns false when there is none.
    pub fn remove(&mut self, hash: u64, id: u32) -> bool {
        self.remove_with(hash, 64 - ID_BITS, id)
    }

    /// Returns the memory of the words, bytes.
    pub fn memory_bytes(&self) -> usize {
        touched_bytes(&self.words)
    }

    fn grow(&mut self) {
        let (taken, of) = LOAD;
        self.homes = (self.homes * (of + 1) / of).max((self.len + 1) * of / taken) + 4;
        let words = self.words.iter().copied().filter(|w| *w != EMPTY);
        let old: Vec<u64> = words.collect();
        self.words.clear();
        self.words.reserve_exact(self.homes);
        self.words.resize(self.homes, EMPTY);
        // The words are sorted: each goes to its home or right behind the one before.
        let mut next = 0;
        for word in old {
            let at = self.home(word).max(next);
            match self.words.get_mut(at) {
                Some(here) => *here = word,
                None => push_exactly(&mut self.words, word),
            }
            next = at + 1;
        }
    }
}

/// Pushes a value without doubling: beyond its reserved space a vector would double.
pub(crate) fn push_exactly<T>(values: &mut Vec<T>, value: T) {
    if values.len() == values.capacity() {
        values.reserve_exact(values.len() / 8 + 4);
    }
    values.push(value);
}

/// Returns an upper limit for the memory of a vector with reserved space: the pages that it has
/// written, and one more because it is not aligned to a page.
pub(crate) fn touched_bytes<T>(values: &Vec<T>) -> usize {
    let written = values.len() * size_of::<T>();
    let reserved = values.capacity() * size_of::<T>() + 16;
    (written.next_multiple_of(4096) + 4096).min(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Table = HashTable<20>;

    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        crate::mix(*seed)
    }

    fn assert_ordered(table: &Table) {
        let full = |(_, w): &(usize, &u64)| **w != EMPTY;
        let taken: Vec<(usize, &u64)> = table.words.iter().enumerate().filter(full).collect();
        assert!(taken.windows(2).all(|w| w[0].1 <= w[1].1));
        for (at, word) in taken {
            let home = table.home(*word);
            assert!(home <= at, "left of its home");
            assert!(table.words[home..at].iter().all(|w| *w != EMPTY), "a gap");
        }
    }

    /// Compares with a multimap. Hashes of few values make long runs.
    #[test]
    fn agrees_with_a_multimap() {
        for shift in [0, 44, 60] {
            let mut seed = shift;
            let (mut table, mut model) = (Table::with_room(100), BTreeMap::<u64, Vec<u32>>::new());
            for step in 0..6000u64 {
                let hash = next(&mut seed) >> 44 << 44 >> shift << shift;
                let id = (next(&mut seed) % 50) as u32;
                let ids = model.entry(hash).or_default();
                if next(&mut seed).is_multiple_of(3) {
                    let held = ids.iter().position(|i| *i == id);
                    assert_eq!(table.remove(hash, id), held.is_some());
                    held.map(|at| ids.remove(at));
                } else if ids.len() < 40 {
                    table.insert(hash, id);
                    ids.push(id);
                }
                let mut found: Vec<u32> = table.candidates(hash).collect();
                let mut expected = ids.clone();
                found.sort();
                expected.sort();
                assert_eq!(found, expected);
                if step % 500 == 0 {
                    assert_ordered(&table);
                }
            }
            assert_eq!(table.len, model.values().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn a_walk_meets_what_stays() {
        let mut table = Table::with_room(100);
        let mut seed = 3;
        let hashes: Vec<u64> = (0..3000).map(|_| next(&mut seed)).collect();
        let even = || (0u32..).zip(&hashes).filter(|(id, _)| id % 2 == 0);
        even().for_each(|(id, hash)| table.insert(*hash, id));
        let (mut met, mut from) = (Vec::new(), 0);
        for id in (1..3000u32).step_by(2) {
            table.insert(hashes[id as usize], id);
            let Some((found, next)) = table.entries_from(from).next() else {
                break;
            };
            met.push(found);
            from = next;
        }
        met.extend(table.entries_from(from).map(|(id, _)| id));
        met.retain(|id| id % 2 == 0);
        met.sort();
        assert!(met.into_iter().eq(even().map(|(id, _)| id)));
    }

    #[test]
    fn fewer_bits_find_at_least_as_much() {
        let mut table = Table::with_room(100);
        let mut seed = 9;
        let hashes: Vec<u64> = (0..2000).map(|_| next(&mut seed)).collect();
        for (id, hash) in (0..).zip(&hashes) {
            table.insert(*hash, id);
        }
        for (id, hash) in (0..).zip(&hashes) {
            assert!(table.candidates(*hash).any(|c| c == id));
            assert!(table.remove_with(*hash, 16, id));
            assert!(!table.candidates(*hash).any(|c| c == id));
        }
        assert!(table.words.iter().all(|w| *w == EMPTY));
    }

    #[test]
    fn an_entry_takes_less_than_nine_bytes() {
        let mut table = Table::with_room(200_000);
        let start = table.words.as_ptr();
        let mut seed = 5;
        let mut worst = 0.0f64;
        for id in 0..200_000 {
            table.insert(next(&mut seed), id);
            if id > 10_000 {
                let bytes = table.words.len() * size_of::<u64>();
                worst = worst.max(bytes as f64 / f64::from(id + 1));
            }
        }
        assert!(worst < 8.9, "{worst} bytes an entry");
        assert_eq!(table.words.as_ptr(), start, "grows in place");
        assert_ordered(&table);
    }
}
