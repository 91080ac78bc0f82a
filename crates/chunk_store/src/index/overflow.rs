//! Entries that do not fit into their buckets, by the first twelve bytes of the fingerprint. The
//! index calls this under its state lock.
//!
//! Invariant: sorted and bounded. The key has 96 bits: two fingerprints of one pool that share them
//! are not expected, and if they occur, both places are candidates.

use super::delta::PLACES_MAX;
use format::index::{IndexPlace, IndexRecord, Key};
use std::collections::BTreeSet;

/// Memory of a record in the tree, bytes.
pub(super) const RECORD_BYTES: usize = 40;

const FIRST: IndexPlace = IndexPlace {
    container: 0,
    region: 0,
};
const LAST: IndexPlace = IndexPlace {
    container: u32::MAX,
    region: u32::MAX,
};

/// The overflow table.
pub(super) struct Overflow {
    records: BTreeSet<IndexRecord>,
    limit: usize,
}

impl Overflow {
    /// Creates an empty table for at most `limit` records.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            records: BTreeSet::new(),
            limit,
        }
    }

    /// Loads the records of the file's tail, even if they exceed the limit.
    pub(super) fn load(&mut self, records: Vec<IndexRecord>) {
        self.records = records.into_iter().collect();
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.records.len() * RECORD_BYTES
    }

    /// Adds a record. Returns false if the table is full. If a key has [`PLACES_MAX`] places, the
    /// new one replaces the lowest.
    pub(super) fn insert(&mut self, record: IndexRecord) -> bool {
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

    /// Removes a record.
    pub(super) fn remove(&mut self, record: &IndexRecord) {
        self.records.remove(record);
    }

    /// Calls `each` with the places of a key.
    pub(super) fn find(&self, key: Key, mut each: impl FnMut(IndexPlace)) {
        if !self.records.is_empty() {
            self.of(key).for_each(|record| each(record.place));
        }
    }

    /// Returns all records, ascending.
    pub(super) fn to_vec(&self) -> Vec<IndexRecord> {
        self.records.iter().copied().collect()
    }

    fn of(&self, key: Key) -> impl Iterator<Item = &IndexRecord> {
        self.records
            .range(IndexRecord { key, place: FIRST }..=IndexRecord { key, place: LAST })
    }
}
