//! Pending entries of the next merge: an open-addressed table of 24-byte records. The index calls
//! this under its state lock.
//!
//! Invariant: at most `limit` slots, of which at most three quarters are used. A record whose
//! region word is 0 is a free slot (a region has at least one sector).

use format::index::{IndexPlace, IndexRecord, Key};

/// Size of a slot, bytes.
pub(super) const SLOT_BYTES: usize = size_of::<IndexRecord>();
const _: () = assert!(SLOT_BYTES == 24);

const SLOTS_FIRST: usize = 1024;
/// Maximum number of places of one key. Beyond it the oldest is dropped: it is the same chunk,
/// stored again. A key with fewer known places has lost none.
pub(super) const PLACES_MAX: usize = 4;

const FREE: IndexRecord = IndexRecord {
    key: Key { bits: 0, short: 0 },
    place: IndexPlace {
        container: 0,
        region: 0,
    },
};

/// The table of pending entries.
pub(super) struct Delta {
    slots: Vec<IndexRecord>,
    used: usize,
    limit: usize,
}

impl Delta {
    /// Creates an empty table that grows up to `limit` slots.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            used: 0,
            limit: limit.max(SLOTS_FIRST),
        }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns the maximum number of records.
    pub(super) fn capacity(&self) -> usize {
        self.limit / 4 * 3
    }

    /// Returns true if another record fits.
    pub(super) fn has_room(&self) -> bool {
        self.used < self.capacity()
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    /// Adds a record unless it exists. The caller has checked [`Self::has_room`].
    pub(super) fn insert(&mut self, record: IndexRecord) {
        debug_assert!(
            self.has_room() && record.place.region != 0,
            "room for a real place"
        );
        if self.used >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        self.put(record);
    }

    /// Calls `each` with the places of a key.
    pub(super) fn find(&self, key: Key, mut each: impl FnMut(IndexPlace)) {
        if self.used == 0 {
            return;
        }
        let (before, from_home) = self.slots.split_at(self.home(key));
        for slot in from_home
            .iter()
            .chain(before)
            .take_while(|slot| slot.place.region != 0)
        {
            if slot.key == key {
                each(slot.place);
            }
        }
    }

    /// Returns all records, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = IndexRecord> + '_ {
        self.slots
            .iter()
            .copied()
            .filter(|slot| slot.place.region != 0)
    }

    fn put(&mut self, record: IndexRecord) {
        let (home, count) = (self.home(record.key), self.slots.len());
        let mut same = [0; PLACES_MAX];
        let mut found = 0;
        for step in 0..count {
            let at = (home + step) % count;
            let Some(slot) = self.slots.get_mut(at) else {
                return;
            };
            if slot.place.region == 0 {
                if found < PLACES_MAX {
                    *slot = record;
                    self.used += 1;
                    return;
                }
                break;
            }
            if slot.key == record.key {
                if slot.place == record.place {
                    return;
                }
                if let Some(same) = same.get_mut(found) {
                    *same = at;
                }
                found += 1;
            }
        }
        // Drop the oldest and move the others up. The last but one must stay: it may be the only
        // readable place while the newest is still being written.
        for pair in same.windows(2) {
            if let [older, newer] = *pair
                && let Some(place) = self.slots.get(newer).copied()
                && let Some(slot) = self.slots.get_mut(older)
            {
                *slot = place;
            }
        }
        if let Some(slot) = same.last().and_then(|last| self.slots.get_mut(*last)) {
            *slot = record;
        }
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).clamp(SLOTS_FIRST, self.limit);
        let old = std::mem::replace(&mut self.slots, vec![FREE; slots]);
        self.used = 0;
        for record in old.into_iter().filter(|slot| slot.place.region != 0) {
            self.put(record);
        }
    }

    /// Returns the slot where the search for a key starts. The key is mixed first: entries that
    /// were inserted bucket by bucket share their top bits.
    fn home(&self, key: Key) -> usize {
        let mixed = (key.bits ^ u64::from(key.short)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * self.slots.len() as u128) >> 64) as usize
    }
}
