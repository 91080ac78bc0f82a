//! Provides samples of the index: header, bucket, tail.

use super::POOL;
use format::bytes::Writer;
use format::index::{
    Bucket, ContainerRun, CopyStamp, Geometry, IndexHeader, IndexPlace, IndexRecord, Key, Seed,
    Tail,
};
use units::{ContainerId, WriterId};

/// Returns the header of a clean index with 64 buckets.
pub fn index_header() -> IndexHeader {
    IndexHeader {
        pool: POOL,
        sequence: 41,
        geometry: Geometry::first(6),
        clean: true,
        entries: 99,
        coverage: 0,
        runs: 0,
        overflow: 0,
        tail_checksum: 0,
    }
}

/// Returns number and page of a bucket with entries.
pub fn bucket() -> Vec<u8> {
    let mut bucket = Bucket::empty();
    for n in 0..30u32 {
        let place = IndexPlace::new(n, n * 7, 1 + n).expect("small numbers");
        assert!(bucket.push(u64::from(n) << 30, place));
    }
    let seed = Seed::new(&POOL, Geometry::first(6));
    [vec![17], bucket.encode(seed, 17).to_vec()].concat()
}

/// Returns counts and records of a tail.
pub fn tail() -> Vec<u8> {
    let record = |bits| IndexRecord {
        key: Key { bits, short: 3 },
        place: IndexPlace::new(9, 8, 7).expect("small numbers"),
    };
    let run = |writer, first, number, count| ContainerRun {
        first: ContainerId::new(WriterId(writer), first),
        number,
        count,
    };
    let tail = Tail {
        coverage: [(WriterId(1), 500), (WriterId(9), 0)].into(),
        runs: vec![run(1, 1024, 0, 2048), run(0, 0, 2048, 1024)],
        overflow: vec![record(5), record(6)],
    };
    let mut header = index_header();
    let seed = Seed::new(&POOL, header.geometry);
    let bytes = tail.encode(&mut header, seed).expect("few records");
    let mut w = Writer::new();
    w.u32(header.coverage)
        .u32(header.runs)
        .u32(header.overflow)
        .bytes(&bytes);
    w.0
}

pub fn stamp() -> Vec<u8> {
    let header = index_header();
    let buckets = 40;
    CopyStamp { header, buckets }.encode()
}
