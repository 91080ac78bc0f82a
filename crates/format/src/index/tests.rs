//! Tests the layout: round trips, addressing across doublings, and every kind of invalid bytes.

use super::*;
use crate::bytes::Fault;
use std::collections::BTreeMap;
use units::{ContainerId, WriterId};

/// SplitMix64: enough randomness for tests.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const POOL: PoolId = PoolId([7; 16]);

fn geometry() -> Geometry {
    Geometry::new(6, 9).unwrap()
}

fn seed() -> Seed {
    Seed::new(&POOL, geometry())
}

fn sample_header() -> IndexHeader {
    IndexHeader {
        pool: POOL,
        sequence: 41,
        geometry: geometry(),
        clean: true,
        entries: 99,
        coverage: 0,
        runs: 0,
        overflow: 0,
        tail_checksum: 0,
    }
}

fn sample_tail() -> Tail {
    let record = |bits| IndexRecord {
        key: Key { bits, short: 3 },
        place: IndexPlace::new(9, 8, 7).unwrap(),
    };
    Tail {
        coverage: BTreeMap::from([(WriterId(1), 500), (WriterId(9), 0)]),
        runs: vec![
            ContainerRun {
                first: ContainerId::new(WriterId(1), 1024),
                number: 0,
                count: 2048,
            },
            ContainerRun {
                first: ContainerId::new(WriterId(0), 0),
                number: 2048,
                count: 1024,
            },
        ],
        overflow: vec![record(5), record(6)],
    }
}

#[test]
fn a_full_bucket_round_trips_and_refuses_more() {
    let mut numbers = Numbers(1);
    let mut bucket = Bucket::empty();
    let mut model = Vec::new();
    for _ in 0..BUCKET_ENTRIES {
        let rest = Geometry::rest(numbers.next());
        let sectors = 1 + numbers.next() as u32 % SECTORS_MAX;
        let place = IndexPlace::new(
            numbers.next() as u32,
            numbers.next() as u32 & 0xffff,
            sectors,
        );
        model.push((rest, place.unwrap()));
        assert!(bucket.push(rest, place.unwrap()));
    }
    assert!(!bucket.push(1, IndexPlace::new(1, 1, 1).unwrap()));
    let page = bucket.encode(seed(), 17);
    let again = Bucket::decode(&page, seed(), 17).unwrap();
    assert_eq!(again.iter().collect::<Vec<_>>(), model);
    for (rest, place) in model {
        let mut found = Vec::new();
        again.find(rest, |p| found.push(p));
        assert_eq!(found, [place]);
    }
}

#[test]
fn find_takes_all_36_bits_into_account_and_no_zero_beyond_the_end() {
    let mut bucket = Bucket::empty();
    let place = |n| IndexPlace::new(n, 0, 1).unwrap();
    for (n, rest) in [5, 5 | (1 << 32), 5, 6].into_iter().enumerate() {
        bucket.push(rest, place(n as u32));
    }
    let find = |rest| {
        let mut found = Vec::new();
        bucket.find(rest, |p| found.push(p.container));
        found
    };
    assert_eq!(find(5), [0, 2]);
    assert_eq!(find(5 | (1 << 32)), [1]);
    assert!(find(0).is_empty());
}

#[test]
fn a_bucket_belongs_to_one_place_of_one_file() {
    let page = Bucket::empty().encode(seed(), 3);
    assert!(Bucket::decode(&page, seed(), 3).is_ok());
    assert!(Bucket::decode(&page, seed(), 4).is_err(), "another number");
    let other_pool = Seed::new(&PoolId([8; 16]), geometry());
    assert!(
        Bucket::decode(&page, other_pool, 3).is_err(),
        "another pool"
    );
    let doubled = Seed::new(&POOL, geometry().doubled().unwrap());
    assert!(Bucket::decode(&page, doubled, 3).is_err(), "another size");
    assert!(
        Bucket::decode(&[0; BUCKET_BYTES], seed(), 0).is_err(),
        "zeroes"
    );
}

#[test]
fn every_flipped_bit_and_every_length_is_refused() {
    let mut header = sample_header();
    let tail = sample_tail().encode(&mut header, seed()).unwrap();
    let page = Bucket::empty().encode(seed(), 3).to_vec();
    let head = header.encode();
    let refused = |bytes: &[u8], at: usize| match at {
        0 => Bucket::decode(bytes, seed(), 3).is_err(),
        1 => IndexHeader::decode(bytes).is_err(),
        _ => Tail::decode(bytes, &header, seed()).is_err(),
    };
    for (at, good) in [page, head, tail].into_iter().enumerate() {
        assert!(!refused(&good, at));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&bad, at), "part {at} bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(refused(&good[..cut], at), "part {at} cut at {cut}");
        }
        let longer: Vec<u8> = good.iter().copied().chain([0]).collect();
        assert!(refused(&longer, at), "part {at} one byte longer");
    }
}

#[test]
fn header_and_tail_round_trip() {
    let mut header = sample_header();
    let tail = sample_tail();
    let bytes = tail.encode(&mut header, seed()).unwrap();
    assert_eq!(bytes.len() as u64, Tail::bytes_announced(&header));
    assert_eq!(IndexHeader::decode(&header.encode()), Ok(header.clone()));
    assert_eq!(header.encode().len(), HEADER_BYTES);
    assert_eq!(Tail::decode(&bytes, &header, seed()), Ok(tail));
}

#[test]
fn a_tail_out_of_order_is_refused_although_its_checksum_is_right() {
    let mut bad = [sample_tail(), sample_tail(), sample_tail(), sample_tail()];
    bad[0].overflow.swap(0, 1);
    bad[1].runs.swap(0, 1);
    bad[2].runs[1].count = u32::MAX;
    bad[3].runs[0].first = ContainerId::new(WriterId(1), ContainerId::SEQUENCE_MAX - 1);
    for (n, tail) in bad.into_iter().enumerate() {
        let mut header = sample_header();
        let bytes = tail.encode(&mut header, seed()).unwrap();
        assert!(Tail::decode(&bytes, &header, seed()).is_err(), "{n}");
    }
}

#[test]
fn the_newest_whole_header_counts() {
    let old = sample_header();
    let new = IndexHeader {
        sequence: 42,
        clean: false,
        ..sample_header()
    };
    assert_ne!(old.slot_offset(), new.slot_offset());
    let (old_bytes, new_bytes, torn) = (old.encode(), new.encode(), vec![1; HEADER_BYTES]);
    assert_eq!(IndexHeader::newest([&new_bytes, &old_bytes]), Ok(new));
    assert_eq!(IndexHeader::newest([&torn, &old_bytes]), Ok(old));
    assert_eq!(
        IndexHeader::newest([&torn, &torn]).unwrap_err().fault,
        Fault::BadMagic
    );
    let mut later = old_bytes.clone();
    later[10] = 2;
    let fault = IndexHeader::newest([&torn, &later]).unwrap_err().fault;
    assert_eq!(fault, Fault::Version(2));
}

#[test]
fn doubling_splits_a_bucket_into_two_neighbours_in_order() {
    let mut numbers = Numbers(2);
    let keys: Vec<Key> = (0..1000)
        .map(|_| Key {
            bits: numbers.next(),
            short: numbers.next() as u32,
        })
        .collect();
    let first = Geometry::first(6);
    let mut geometry = first;
    while let Some(doubled) = geometry.doubled() {
        for key in &keys {
            let path = geometry.path(*key);
            let bucket = geometry.bucket(path);
            assert!(bucket < geometry.buckets());
            assert_eq!(geometry.path_of(bucket, Geometry::rest(path)), path);
            assert_eq!(doubled.path(*key), path);
            assert_eq!(doubled.bucket(path) >> 1, bucket);
            if geometry.log2() <= first.log2() + 4 {
                assert_eq!(
                    bucket,
                    key.bits >> (64 - geometry.log2()),
                    "top bits of the key"
                );
            }
        }
        geometry = doubled;
    }
    assert_eq!(geometry.log2(), first.log2() + Geometry::DOUBLINGS_MAX);
}

#[test]
fn regions_that_do_not_fit_are_refused() {
    assert!(IndexPlace::new(u32::MAX, SECTOR_LIMIT - 1, SECTORS_MAX).is_some());
    assert!(IndexPlace::new(0, SECTOR_LIMIT, 1).is_none());
    assert!(IndexPlace::new(0, 0, SECTORS_MAX + 1).is_none());
    assert!(IndexPlace::new(0, 0, 0).is_none());
    let place = IndexPlace::new(1, 65535, 4095).unwrap();
    assert_eq!((place.sector(), place.sectors()), (65535, 4095));
}
