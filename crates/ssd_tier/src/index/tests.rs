use super::*;
use crate::class::CacheClass;
use crate::keys::{PoolKeys, Use};
use chunking::SealKey;
use units::{IoClass, PoolId};

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

fn block(used: i64) -> Block {
    Block {
        by: Arc::new(Use::new(&NoKeys, [0; 32])),
        sequence: 1,
        class: CacheClass::new(Kind::Data, IoClass(0)),
        used: UnixNanos(used),
    }
}

/// A fingerprint in the only bucket of shard 0.
fn print(n: u32) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[8..12].copy_from_slice(&n.to_le_bytes());
    bytes[31] = 1;
    Fingerprint(bytes)
}

fn place(slot: u32, generation: u8) -> Place {
    Place::of_payload(slot, generation, 208, 4096)
}

fn has(index: &Index, n: u32, slots: &Slots) -> bool {
    let found = index.find(&print(n), Kind::Data, slots, UnixNanos(0));
    matches!(found, Found::At(..))
}

#[test]
fn a_full_bucket_drops_stale_places_first_and_then_the_longest_unused() {
    let (index, slots) = (Index::new(0), Slots::new(20));
    for n in 0..16 {
        let generation = slots.fill(n, block(i64::from(n)), 0).expect("a slot");
        index.add(&print(n + 1), place(n, generation), &slots);
    }
    assert!((1..=16).all(|n| has(&index, n, &slots)));
    slots.vacate(5);
    slots.fill(16, block(99), 0);
    index.add(&print(17), place(16, 0), &slots);
    assert!(!has(&index, 6, &slots) && has(&index, 1, &slots) && has(&index, 17, &slots));
    slots.fill(17, block(99), 0);
    index.add(&print(18), place(17, 0), &slots);
    assert!(!has(&index, 1, &slots) && has(&index, 2, &slots) && has(&index, 18, &slots));
    assert_eq!(index.places(), 16);
}

#[test]
fn a_reused_slot_makes_its_places_stale() {
    let (index, slots) = (Index::new(0), Slots::new(2));
    slots.fill(0, block(0), 0);
    index.add(&print(1), place(0, 0), &slots);
    slots.vacate(0);
    assert_eq!(slots.fill(0, block(0), 0), Some(1));
    assert!(!has(&index, 1, &slots));
    assert_eq!((index.places(), index.misses()), (0, [1, 0, 0]));
    index.add(&print(2), place(0, 1), &slots);
    slots.vacate(0);
    index.sweep(index.buckets(), &slots);
    assert_eq!(index.places(), 0);
}

#[test]
fn staged_chunks_are_found_and_settle_unless_forgotten() {
    let (index, slots) = (Index::new(0), Slots::new(1));
    let bytes: Arc<[u8]> = Arc::from(b"chunk".as_slice());
    assert!(index.stage(&print(1), Arc::clone(&bytes), &slots));
    assert!(!index.stage(&print(1), Arc::clone(&bytes), &slots), "twice");
    assert!(
        !index.stage(&print(2), bytes, &slots),
        "the first bytes agree"
    );
    let found = index.find(&print(1), Kind::Recipe, &slots, UnixNanos(0));
    assert!(matches!(found, Found::Staged(bytes) if *bytes == *b"chunk"));
    slots.fill(0, block(0), 0);
    index.settle(&print(1), place(0, 0), &slots);
    assert!(has(&index, 1, &slots) && !index.is_staged(&print(1)));
    index.settle(&print(3), place(0, 0), &slots);
    assert!(!has(&index, 3, &slots), "it was not staged");
}

/// Returns how many of a hundred thousand chunks find no place.
fn lost_with(bytes_of_chunk: u64) -> u64 {
    let count = 100_000u64;
    let (index, slots) = (Index::new(count * bytes_of_chunk), Slots::new(1));
    slots.fill(0, block(0), 0);
    let mut seed = 1u64;
    for _ in 0..count {
        let mut bytes = [0; 32];
        for word in bytes.chunks_exact_mut(8) {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            word.copy_from_slice(&(seed ^ seed >> 29).to_le_bytes());
        }
        index.add(&Fingerprint(bytes), place(0, 0), &slots);
    }
    count - index.places()
}

#[test]
fn sixteen_bytes_a_chunk_suffice_for_nearly_all() {
    assert!(lost_with(16) < 2500, "{}", lost_with(16));
    assert!(lost_with(18) < 1500, "{}", lost_with(18));
    assert!(lost_with(20) < 600, "{}", lost_with(20));
}
