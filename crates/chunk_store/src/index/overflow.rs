//! Entries that found no place in their bucket, by the first twelve bytes of the fingerprint.
//!
//! Invariant: sorted and bounded. Twelve bytes are 96 bits: two fingerprints of one pool that share
//! them do not occur, and if they did both places would be candidates. Called by the index under
//! its state lock.

use super::delta::PLACES_MAX;
use format::index::{Key, Place, Record};
use std::collections::BTreeSet;

/// Bytes of memory of a record, the tree's share included.
pub(super) const RECORD_BYTES: usize = 40;

const FIRST: Place = Place {
    container: 0,
    region: 0,
};
const LAST: Place = Place {
    container: u32::MAX,
    region: u32::MAX,
};

/// The table.
pub(super) struct Overflow {
    records: BTreeSet<Record>,
    limit: usize,
}

impl Overflow {
    /// Empty; takes at most `limit` records.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            records: BTreeSet::new(),
            limit,
        }
    }

    /// Holds what the tail of the file held, even if that is more than the limit.
    pub(super) fn load(&mut self, records: Vec<Record>) {
        self.records = records.into_iter().collect();
    }

    /// Records held.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.records.len() * RECORD_BYTES
    }

    /// Adds a record. False when the table is full; of more than a few places of one key the
    /// lowest goes.
    pub(super) fn insert(&mut self, record: Record) -> bool {
        if self.records.contains(&record) {
            return true;
        }
        let same = self.of(record.key).count();
        if same >= PLACES_MAX {
            let lowest = self.of(record.key).next().copied();
            lowest.iter().for_each(|lowest| self.remove(lowest));
        } else if self.records.len() >= self.limit {
            return false;
        }
        self.records.insert(record)
    }

    /// Forgets a record.
    pub(super) fn remove(&mut self, record: &Record) {
        self.records.remove(record);
    }

    /// Calls `each` with the places of a key.
    pub(super) fn find(&self, key: Key, mut each: impl FnMut(Place)) {
        if !self.records.is_empty() {
            self.of(key).for_each(|record| each(record.place));
        }
    }

    /// All records, ascending.
    pub(super) fn to_vec(&self) -> Vec<Record> {
        self.records.iter().copied().collect()
    }

    fn of(&self, key: Key) -> impl Iterator<Item = &Record> {
        self.records
            .range(Record { key, place: FIRST }..=Record { key, place: LAST })
    }
}
