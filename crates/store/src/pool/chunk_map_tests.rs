//! Places that the index has dropped, and an index that is damaged during writes.

use super::Pool;
use crate::space::{Marking, Sources};
use crate::testing::small::{LANE, make, open};
use chunk_store::chunk_map::Near;
use chunk_store::index::Location;
use format::index::{BUCKET_BYTES, BUCKETS_START};
use media::{Disk, Random, SeededRandom};
use read_path::Reader;
use sim::SimDisk;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use units::{ContainerId, Fingerprint, WriterId};

/// Number of copies that other sessions begin before and after a chunk is stored.
const BEGUN: [(u64, u64); 9] = [
    (0, 0),
    (0, 3),
    (0, 4),
    (0, 20),
    (4, 0),
    (8, 0),
    (4, 4),
    (8, 4),
    (20, 20),
];

fn chunk(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    SeededRandom::new(n).fill(&mut bytes);
    bytes
}

/// Creates a pool with `count` chunks, committed.
fn stored(count: u64) -> (Arc<SimDisk>, Pool, Vec<Fingerprint>) {
    stored_after(count, 0)
}

/// Creates the same pool after other sessions began `copies` copies of each chunk.
fn stored_after(count: u64, copies: u64) -> (Arc<SimDisk>, Pool, Vec<Fingerprint>) {
    let disk = SimDisk::new();
    let pool = make(&disk);
    if copies > 0 {
        // Keys come from the same seed, so the chunks have the same fingerprints in every pool.
        begin_copies(&pool, &stored(count).2, 0..copies);
    }
    let mut session = pool.begin(LANE).expect("session");
    let store = |n| session.main().store_chunk(&chunk(n)).expect("store");
    let chunks = (0..count).map(store).collect();
    pool.commit(session, &[], &[]).expect("commit");
    (disk, pool, chunks)
}

/// Inserts copies that other sessions began to store: places in containers that do not exist.
fn begin_copies(pool: &Pool, chunks: &[Fingerprint], copies: Range<u64>) {
    let index = &pool.chunks().index;
    for copy in copies {
        for fingerprint in chunks {
            let location = Location {
                container: ContainerId::new(WriterId(1), (1 << 20) + copy),
                sector: 8,
                sectors: 16,
            };
            index.insert(fingerprint, location).expect("insert");
        }
        // A commit merges each of them into the file.
        index.commit(&BTreeMap::new()).expect("merge");
    }
}

fn is_read(reader: &Reader, chunks: &[Fingerprint]) {
    for (n, fingerprint) in (0..).zip(chunks) {
        let read = reader.chunk(fingerprint).expect("read");
        assert!(read.to_vec() == chunk(n), "chunk {n}");
    }
}

#[test]
fn a_chunk_is_found_whatever_copies_were_begun_since() {
    for (before, copies) in BEGUN {
        let (_, pool, chunks) = stored_after(40, before);
        begin_copies(&pool, &chunks, 5000..5000 + copies);
        for fingerprint in &chunks {
            let place = pool.chunks().locate(fingerprint, &mut Near::default());
            assert!(place.expect("locate").is_some(), "{before}, {copies}");
        }
        is_read(pool.reader(), &chunks);
    }
}

#[test]
fn a_search_is_made_once_for_a_chunk() {
    let (disk, pool, chunks) = stored(40);
    drop(pool);
    let pool = open(&disk);
    begin_copies(&pool, &chunks, 0..9);
    // Directories are read again each time, as if there were many.
    let map = pool.chunks();
    let locate = |fingerprint: &Fingerprint| {
        map.forget_directories();
        let before = map.counts().directory_reads;
        let place = map.locate(fingerprint, &mut Near::default());
        assert!(place.expect("locate").is_some());
        map.counts().directory_reads - before
    };
    let containers = 40 * 4096 / (64 << 10) + 1;
    let first = locate(&chunks[7]);
    let again = locate(&chunks[7]);
    assert!(first >= containers, "{first} of {containers} directories");
    // Containers that do not exist count as reads too.
    assert!(again <= 5, "{again} directories for a chunk that was found");
}

#[test]
fn marking_keeps_what_the_index_has_let_go() {
    for (before, copies) in BEGUN {
        let (_, pool, chunks) = stored_after(40, before);
        begin_copies(&pool, &chunks, 5000..5000 + copies);
        let settled = |id: ContainerId| id.sequence() < 1 << 20;
        let sources = Sources {
            chunks: pool.chunks(),
            reader: pool.reader(),
            settled: &settled,
        };
        let mut strays = Marking::default();
        chunks.iter().for_each(|f| strays.push_stray(*f));
        strays.step(&sources, 1000).expect("mark");
        assert_eq!(strays.live.chunks, 40, "strays: {before}, {copies}");

        let kept = |f: &Fingerprint| pool.chunks().keeper(f, &settled).expect("keeper");
        let is_settled =
            |f: &Fingerprint| kept(f).is_some_and(|k| settled(k.place.region.container));
        assert!(chunks.iter().all(is_settled), "chunks: {before}, {copies}");
    }
}

#[test]
fn a_damaged_index_loses_nothing_that_is_being_written() {
    let (disk, pool, chunks) = stored(40);
    drop(pool);
    let pool = open(&disk);
    let mut session = pool.begin(LANE).expect("session");
    // The regions are closed and in the index. Their container is still open.
    let new: Vec<_> = (100..106)
        .map(|n| session.main().store_chunk(&chunk(n)).expect("store"))
        .collect();
    let file = disk.open("cache/fpi", false).expect("index");
    let len = file.len().expect("length");
    for at in (BUCKETS_START..len).step_by(BUCKET_BYTES) {
        file.write_at(at, &[7; 16]).expect("damage");
    }
    let nowhere = Fingerprint([9; 32]);
    let map = pool.chunks();
    assert!(
        map.locate(&nowhere, &mut Near::default())
            .expect("look")
            .is_none()
    );
    assert!(map.index.is_damaged());
    is_read(pool.reader(), &chunks);
    pool.commit(session, &[], &[]).expect("commit");
    for (n, fingerprint) in (100..).zip(&new) {
        let read = pool.reader().chunk(fingerprint).expect("read");
        assert!(read.to_vec() == chunk(n), "chunk {n}");
    }
    drop(pool);
    let pool = open(&disk);
    is_read(pool.reader(), &chunks);
    assert!(new.iter().all(|f| pool.holds_chunk(f).expect("look")));
}
