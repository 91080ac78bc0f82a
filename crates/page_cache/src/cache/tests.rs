use super::*;
use crate::{NoEvents, S3Fifo};

const MIB: u64 = 1 << 20;

fn cache(bytes_max: u64) -> PageCache {
    let options = Options::new(bytes_max, 7);
    PageCache::new(
        options,
        Box::new(S3Fifo::new(bytes_max)),
        Arc::new(NoEvents),
    )
}

fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (word, salt) in bytes.chunks_exact_mut(8).zip(1..) {
        word.copy_from_slice(&crate::mix(n.wrapping_add(salt << 56)).to_le_bytes());
    }
    Fingerprint(bytes)
}

fn at(object: u64, chunk: u64) -> Place {
    Place { object, chunk }
}

#[test]
fn a_chunk_is_kept_once_for_all_its_places() {
    let cache = cache(8 * MIB);
    let one = cache.insert(&fingerprint(1), &[1; 4096], Some(at(1, 10)), Use::Demand);
    assert!(cache.by_place(at(2, 20), Use::Demand).is_none());
    let two = cache.by_content(&fingerprint(1), Some(at(2, 20)), Use::Demand);
    assert!(std::ptr::eq(&*one, &*two.expect("a duplicate is a hit")));
    let three = cache
        .by_place(at(2, 20), Use::Demand)
        .expect("now by place");
    assert!(std::ptr::eq(&*one, &*three));
    cache.forget_place(at(1, 10));
    assert!(cache.by_place(at(1, 10), Use::Demand).is_none());
    assert!(cache.is_resident(at(2, 20)));
    let counters = cache.counters();
    assert_eq!((counters.hits_by_place, counters.hits_by_content), (1, 1));
    assert_eq!((counters.frames, counters.places), (1, 1));
}

#[test]
fn an_unwritten_page_is_served_for_its_version_only() {
    let cache = cache(8 * MIB);
    cache.put_unwritten(1, 5, 100, &[1; PAGE_BYTES]);
    let old = cache.unwritten(1, 5, 100).expect("just put");
    cache.put_unwritten(1, 5, 90, &[9; PAGE_BYTES]);
    cache.put_unwritten(1, 5, 110, &[2; PAGE_BYTES]);
    assert!(cache.unwritten(1, 5, 100).is_none());
    assert!(cache.unwritten(2, 5, 110).is_none());
    assert_eq!(cache.unwritten(1, 5, 110).expect("newest")[0], 2);
    assert_eq!(old[0], 1, "a reader keeps what it has");
    cache.destaged(1, 5, 100);
    assert!(cache.is_unwritten_resident(1, 5, 110));
    cache.destaged(1, 5, 110);
    assert!(!cache.is_unwritten_resident(1, 5, 110));
}

#[test]
fn memory_stays_within_the_budget() {
    let cache = cache(8 * MIB);
    for n in 0..20_000u64 {
        let len = 4096 << (n % 5);
        cache.insert(
            &fingerprint(n),
            &vec![n as u8; len],
            Some(at(1, n)),
            Use::Demand,
        );
        cache.put_unwritten(2, n, n, &[n as u8; PAGE_BYTES]);
        let used = cache.counters().bytes_resident;
        assert!(used <= 8 * MIB, "{used} after {n}");
    }
}
