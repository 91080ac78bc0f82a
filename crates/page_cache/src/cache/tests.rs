use super::*;
use crate::{NoEvents, S3Fifo, Use};

const MIB: u64 = 1 << 20;

fn cache(bytes_max: u64) -> PageCache {
    let options = PageCacheOptions::new(bytes_max, 7);
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
fn a_dirty_page_is_served_for_its_version_only() {
    let cache = cache(8 * MIB);
    cache.put_dirty(1, 5, 100, &[1; PAGE_BYTES], IoClass(0));
    let old = cache.dirty(1, 5, 100).expect("just put");
    cache.put_dirty(1, 5, 90, &[9; PAGE_BYTES], IoClass(0));
    cache.put_dirty(1, 5, 110, &[2; PAGE_BYTES], IoClass(0));
    assert!(cache.dirty(1, 5, 100).is_none());
    assert!(cache.dirty(2, 5, 110).is_none());
    assert_eq!(cache.dirty(1, 5, 110).expect("newest")[0], 2);
    assert_eq!(old[0], 1, "a reader keeps what it has");
    cache.destaged(1, 5, 100);
    assert!(cache.is_dirty_resident(1, 5, 110));
    cache.destaged(1, 5, 110);
    assert!(!cache.is_dirty_resident(1, 5, 110));
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
        cache.put_dirty(2, n, n, &[n as u8; PAGE_BYTES], IoClass(0));
        let used = cache.counters().bytes_resident;
        assert!(used <= 8 * MIB, "{used} after {n}");
    }
}

/// Space for large chunks comes from memory that lies in small pieces. About as many bytes of small
/// chunks are evicted as the large ones take, and no hot ones.
#[test]
fn large_chunks_displace_no_more_small_ones_than_their_size() {
    let cache = cache(32 * MIB);
    let small = |n: u64| (fingerprint(n), at(1, n));
    for n in 0..20_000 {
        let (fingerprint, place) = small(n);
        cache.insert(&fingerprint, &[1; 4096], Some(place), Use::Demand);
        // A hot set of a quarter of the memory, spread over the extents.
        if n >= 8000 {
            cache.by_place(at(1, n % 2000 * 4), Use::Demand);
            if n % 4 == 0 && n < 10_000 {
                let (fingerprint, place) = small(n % 2000 * 4);
                cache.insert(&fingerprint, &[1; 4096], Some(place), Use::Demand);
            }
        }
    }
    let is_hot = |n: &u64| cache.is_resident(at(1, n * 4));
    for n in 0..2000 {
        let (fingerprint, place) = small(n * 4);
        cache.insert(&fingerprint, &[1; 4096], Some(place), Use::Demand);
        (0..3).for_each(|_| drop(cache.by_place(place, Use::Demand)));
    }
    let before = cache.counters();
    for n in 0..100 {
        cache.insert(
            &fingerprint(1 << 40 | n),
            &[2; 64 << 10],
            Some(at(2, n)),
            Use::Demand,
        );
    }
    let after = cache.counters();
    let evicted = after.evictions - before.evictions;
    let slack = 32 * MIB / 64 / 4096;
    assert!(
        evicted <= 100 * 16 + slack + 100,
        "{evicted} small ones for 100 large ones"
    );
    let hot = (0..2000).filter(is_hot).count();
    assert!(hot >= 1900, "{hot} of 2000 hot ones are left");
}

#[test]
fn what_is_too_long_is_handed_back_and_not_kept() {
    let cache = cache(8 * MIB);
    cache.insert(&fingerprint(1), &[1; 10], Some(at(1, 1)), Use::Demand);
    let long = vec![2; crate::CHUNK_BYTES_MAX + 1];
    let frame = cache.insert(&fingerprint(2), &long, Some(at(1, 1)), Use::Demand);
    assert_eq!(*frame, long[..]);
    assert!(!cache.is_content_resident(&fingerprint(2)));
    assert!(
        !cache.is_resident(at(1, 1)),
        "the place has other content now"
    );
}

/// When callers hold all memory, the cache serves and keeps nothing. It recovers when they release
/// it.
#[test]
fn held_frames_do_not_block_anybody() {
    let cache = cache(8 * MIB);
    let insert = |n| cache.insert(&fingerprint(n), &[n as u8; 32 << 10], None, Use::Demand);
    let held: Vec<Frame> = (0..1000).map(insert).collect();
    assert!(
        held.iter()
            .zip(0..)
            .all(|(frame, n)| frame.iter().all(|b| *b == n as u8))
    );
    cache.put_dirty(1, 1, 1, &[1; PAGE_BYTES], IoClass(0));
    assert!(cache.counters().bytes_resident <= 8 * MIB);
    drop(held);
    insert(2000);
    cache.put_dirty(1, 1, 2, &[1; PAGE_BYTES], IoClass(0));
    assert!(cache.is_content_resident(&fingerprint(2000)));
    assert!(cache.is_dirty_resident(1, 1, 2));
}

/// Clean chunks are evicted first; dirty pages have their own limit.
#[test]
fn dirty_pages_stay_while_clean_chunks_are_left() {
    let cache = cache(16 * MIB);
    for n in 0..1500 {
        cache.put_dirty(1, n, 1, &[1; PAGE_BYTES], IoClass(0));
    }
    for n in 0..20_000 {
        cache.insert(&fingerprint(n), &[1; 4096], None, Use::Demand);
    }
    assert!((0..1500).all(|n| cache.is_dirty_resident(1, n, 1)));
    assert_eq!(cache.counters().spills, 0);
    for n in 1500..4000 {
        cache.put_dirty(1, n, 1, &[1; PAGE_BYTES], IoClass(0));
    }
    let counters = cache.counters();
    assert_eq!(counters.bytes_dirty, 8 * MIB);
    assert_eq!(counters.spills, 4000 - 2048);
}
