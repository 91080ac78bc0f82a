use super::*;
use crate::class::KindShares;
use crate::keys::{PoolKeys, Use};
use crate::slots::Block;
use chunking::SealKey;
use classes::{ClassSettings, Priority, Share};
use std::sync::Arc;
use units::{Fingerprint, IoClass, PoolId};

struct NoKeys;

impl PoolKeys for NoKeys {
    fn pool(&self) -> PoolId {
        PoolId([1; 16])
    }
    fn fingerprint(&self, _: &[u8]) -> Fingerprint {
        Fingerprint::HOLE
    }
    fn block_key(&self, _: &[u8; 32]) -> Option<SealKey> {
        None
    }
}

/// Ten slots: 7 for data, 2 for recipes, 1 for directories. At first data is missing.
struct Room {
    slots: Slots,
    occupancy: Occupancy,
    settings: TierSettings,
    now: i64,
}

fn data(n: u8) -> CacheClass {
    CacheClass::new(Kind::Data, IoClass(n))
}

impl Room {
    fn new(classes: &[(u8, Priority, u8)]) -> Self {
        let mut settings = TierSettings::new(KindShares::ALONE);
        for (class, priority, share) in classes {
            let share = Share::from_hundredths(*share).expect("a share");
            let priority = *priority;
            settings.set(IoClass(*class), ClassSettings { priority, share });
        }
        let mut occupancy = Occupancy::default();
        (0..7).for_each(|slot| occupancy.add_free(slot));
        let mut room = Self {
            slots: Slots::new(10),
            occupancy,
            settings,
            now: 0,
        };
        let others = [Kind::Recipe, Kind::Recipe, Kind::Directory];
        for (slot, kind) in (7..).zip(others) {
            room.enter(slot, CacheClass::new(kind, IoClass(0)));
        }
        room
    }

    /// All slots are free.
    fn empty(classes: &[(u8, Priority, u8)]) -> Self {
        let mut occupancy = Occupancy::default();
        (0..10).for_each(|slot| occupancy.add_free(slot));
        Self {
            slots: Slots::new(10),
            occupancy,
            ..Self::new(classes)
        }
    }

    /// Places a block; returns its slot.
    fn put(&mut self, class: CacheClass) -> Option<u32> {
        let (slot, _) = self
            .occupancy
            .take(class, &self.settings, &self.slots, u32::MAX);
        let slot = slot?;
        self.enter(slot, class);
        Some(slot)
    }

    fn enter(&mut self, slot: u32, class: CacheClass) {
        self.now += 1;
        let block = Block {
            by: Arc::new(Use::new(&NoKeys, [0; 32])),
            sequence: 1,
            class,
            used: UnixNanos(self.now),
        };
        self.slots.fill(slot, block, 0);
        self.occupancy.add_block(slot, class, UnixNanos(self.now));
    }

    fn put_many(&mut self, times: std::ops::Range<u32>, class: CacheClass) {
        for _ in times {
            self.put(class);
        }
    }

    fn counts(&self, classes: &[u8]) -> Vec<u64> {
        classes
            .iter()
            .map(|n| self.occupancy.count(data(*n)))
            .collect()
    }
}

const KEEP: Priority = Priority::Evictable(10);
const DROP: Priority = Priority::Evictable(199);
const LOW: Priority = Priority::Evictable(200);

#[test]
fn the_least_important_goes_first_and_the_longest_unused_of_it() {
    let mut room = Room::new(&[(1, KEEP, 100), (2, DROP, 100)]);
    let slots: Vec<_> = [1, 2, 2, 2, 1, 1, 1].map(|n| room.put(data(n))).to_vec();
    assert_eq!(slots, (0..7).map(Some).collect::<Vec<_>>());
    // Slot 1 is the oldest of class 2, but was used again.
    room.slots.touch(1, 0, UnixNanos(100));
    assert_eq!(room.put(data(1)), Some(2));
    assert_eq!(room.put(data(1)), Some(3));
    assert_eq!(
        room.put(data(2)),
        Some(1),
        "from itself: the other matters more"
    );
    assert_eq!(room.counts(&[1, 2]), [6, 1]);
    assert_eq!(room.put(data(1)), Some(1));
    assert_eq!(room.put(data(2)), None, "nothing is as unimportant");
    assert_eq!(room.put(data(1)), Some(0), "now from itself");
}

#[test]
fn a_low_class_has_free_slots_and_displaces_nothing() {
    let even_lower = Priority::Evictable(255);
    let mut room = Room::new(&[(1, KEEP, 100), (2, LOW, 30), (3, even_lower, 100)]);
    let slots: Vec<_> = [2, 2, 2, 3].map(|n| room.put(data(n))).to_vec();
    let expected = [Some(0), Some(1), None, Some(2)];
    assert_eq!(slots, expected, "it does not turn its share over");
    room.put_many(0..3, data(1));
    assert!(room.occupancy.has_free(u32::MAX));
    assert!(!room.occupancy.has_free(6));
    assert_eq!(room.put(data(3)), Some(6));
    assert!(!room.occupancy.has_free(u32::MAX));
    assert_eq!(room.put(data(3)), None, "no slot is free");
    room.put_many(0..4, data(1));
    assert_eq!(room.counts(&[1, 2, 3]), [7, 0, 0]);
}

#[test]
fn a_class_at_its_share_evicts_only_from_itself() {
    let mut room = Room::new(&[(1, DROP, 30), (2, DROP, 100)]);
    let slots: Vec<_> = [1, 1, 1, 1].map(|n| room.put(data(n))).to_vec();
    assert_eq!(slots, [Some(0), Some(1), Some(0), Some(1)]);
    room.put_many(0..5, data(2));
    assert_eq!(room.counts(&[1, 2]), [2, 5]);
    room.put(data(2));
    assert_eq!(room.counts(&[1, 2]), [1, 6], "equals: the oldest of both");
}

#[test]
fn pinned_blocks_stay_until_their_own_class_needs_the_slot() {
    let mut room = Room::new(&[(1, Priority::Pinned, 50), (2, KEEP, 100)]);
    room.put_many(0..5, data(1));
    room.put_many(0..20, data(2));
    assert_eq!(room.counts(&[1, 2]), [3, 4]);
    let share = Share::ALL;
    let priority = Priority::Pinned;
    room.settings
        .set(IoClass(1), ClassSettings { priority, share });
    room.put_many(0..20, data(1));
    assert_eq!(room.counts(&[1, 2]), [7, 0]);
    assert_eq!(room.put(data(2)), None);
}

#[test]
fn kinds_use_what_is_free_and_give_it_back() {
    let mut room = Room::empty(&[]);
    let of = |kind| CacheClass::new(kind, IoClass(0));
    let (recipe, directory) = (of(Kind::Recipe), of(Kind::Directory));
    let counts = |room: &Room| {
        let count = |kind| room.occupancy.count(of(kind));
        Kind::ALL.map(count)
    };
    room.put_many(0..20, data(0));
    assert_eq!(counts(&room), [10, 0, 0], "no slot lies idle for others");
    room.put_many(0..20, recipe);
    assert_eq!(counts(&room), [8, 2, 0]);
    room.put_many(0..20, directory);
    room.put_many(0..20, data(0));
    assert_eq!(counts(&room), [7, 2, 1]);
    let share = |n| Share::from_hundredths(n).expect("a share");
    let kinds = KindShares {
        data: share(40),
        recipes: share(50),
        directories: share(10),
    };
    room.settings = TierSettings::new(kinds);
    room.put_many(0..20, recipe);
    assert_eq!(counts(&room), [4, 5, 1]);
}

#[test]
fn what_is_pinned_has_no_right_to_the_share_of_another_kind() {
    let mut room = Room::empty(&[(1, Priority::Pinned, 100), (2, KEEP, 100)]);
    room.put(data(2));
    room.put_many(0..20, data(1));
    assert_eq!(room.counts(&[1, 2]), [10, 0]);
    let recipe = CacheClass::new(Kind::Recipe, IoClass(0));
    room.put_many(0..20, recipe);
    assert_eq!(room.counts(&[1]), [8]);
    assert_eq!(room.occupancy.count(recipe), 2);
}

#[test]
fn free_slots_past_the_limit_are_not_used() {
    let mut room = Room::new(&[]);
    room.put_many(0..3, data(0));
    let taken = room.occupancy.take(data(0), &room.settings, &room.slots, 3);
    assert_eq!(taken, (Some(0), 1));
    let taken = room.occupancy.take(data(0), &room.settings, &room.slots, 4);
    assert_eq!(taken, (Some(3), 0));
}

#[test]
fn a_slot_that_readers_gave_up_is_no_victim() {
    let mut room = Room::new(&[]);
    room.put_many(0..7, data(0));
    room.slots.vacate(0);
    assert_eq!(room.put(data(0)), Some(1));
    room.occupancy.release(0, data(0));
    assert_eq!(room.put(data(0)), Some(0));
}

/// Classes at their shares evict beside the queue, and it may wait for a full tier for ever.
#[test]
fn the_queue_of_blocks_hardly_needed_drops_what_has_left() {
    let mut room = Room::new(&[]);
    let slot = room.put(data(0)).expect("a free slot");
    for generation in 1..=40 {
        room.occupancy
            .add_hardly_needed(vec![(slot, generation)], &room.slots);
    }
    room.occupancy
        .add_hardly_needed(vec![(slot, 0)], &room.slots);
    assert!(room.occupancy.hardly_needed.len() <= 10);
    let found = room.occupancy.evict_hardly_needed(&room.slots);
    assert_eq!(found, Some(slot), "it is still there");
}
