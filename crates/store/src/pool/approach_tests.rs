//! Ways to a chunk: by its directory, or straight to its region where the index says.

use super::Pool;
use crate::testing::small::{LANE, make};
use chunk_store::index::Location;
use media::SeededRandom;
use read_path::{Approach, ChunkRef, Keep, Loaded, Reader, Route};
use sim::SimDisk;
use std::cell::RefCell;
use units::{ContainerId, Fingerprint};

const DIRECT: Approach = Approach {
    route: Route::Region,
    shares: true,
    admit: None,
    ahead_bytes: 0,
    is_random: true,
    waiting: None,
};

/// Creates a pool with chunks of one size in several regions.
fn stored(count: u64) -> (Pool, Vec<(Fingerprint, Vec<u8>)>) {
    let pool = make(&SimDisk::new());
    let mut session = pool.begin(LANE).expect("session");
    let chunk = |n: u64| {
        let mut bytes = vec![0; 4096];
        media::Random::fill(&SeededRandom::new(n), &mut bytes);
        let fingerprint = session.main().store_chunk(&bytes).expect("store");
        (fingerprint, bytes)
    };
    let chunks = (0..count).map(chunk).collect();
    pool.commit(session, &[], &[]).expect("commit");
    (pool, chunks)
}

/// Cache of the caller.
#[derive(Default)]
pub(super) struct Caller {
    /// It takes one chunk of a region.
    takes_one: bool,
    /// It keeps chunks elsewhere.
    keeps: bool,
    /// Chunks that came with the one that was asked for.
    ahead: RefCell<Vec<(Fingerprint, Vec<u8>)>>,
}

impl Caller {
    /// Nothing stays in the reader's cache.
    pub(super) fn keeping() -> Self {
        Self {
            keeps: true,
            ..Self::default()
        }
    }

    /// Takes one chunk of a region.
    fn one() -> Self {
        let mut one = Self::keeping();
        one.takes_one = true;
        one
    }
}

impl Keep for Caller {
    fn has(&self, _: &Fingerprint) -> bool {
        false
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }

    fn keep(&self, _: &Fingerprint, _: &ChunkRef) -> bool {
        self.keeps
    }

    fn keep_ahead(&self, chunks: &mut dyn Iterator<Item = (&Fingerprint, &[u8])>) {
        let chunks = chunks.map(|(fingerprint, bytes)| (*fingerprint, bytes.to_vec()));
        self.ahead.borrow_mut().extend(chunks);
    }
}

fn load(reader: &Reader, fingerprint: &Fingerprint) -> Vec<u8> {
    match reader
        .load(fingerprint, DIRECT, &Caller::default())
        .expect("load")
    {
        Loaded::Chunk(chunk) => chunk.to_vec(),
        Loaded::Kept => panic!("nobody keeps anything"),
    }
}

#[test]
fn the_index_alone_leads_to_the_region() {
    let (pool, chunks) = stored(40);
    let reader = pool.reader();
    let before = pool.chunks().counts().directory_reads;
    for (fingerprint, bytes) in &chunks {
        assert!(load(reader, fingerprint) == *bytes);
    }
    let counts = reader.counts();
    assert_eq!((counts.region_reads, counts.direct_reads), (20, 20));
    assert_eq!((counts.chunk_hits, counts.hints_denied), (20, 0));
    assert_eq!(pool.chunks().counts().directory_reads, before);
}

/// A wrong hint may name another region, a place within one, a place beyond the end, or no
/// container.
#[test]
fn a_hint_that_lies_costs_a_read_and_is_counted() {
    let (pool, chunks) = stored(40);
    let reader = pool.reader();
    let mut hints = Vec::new();
    let (other, _) = &chunks[39];
    pool.chunks().hints(other, &mut hints).expect("look up");
    let right = hints[0];
    let elsewhere = ContainerId::new(right.container.writer(), 1 << 20);
    let lies = [
        right,
        Location {
            sector: right.sector + 1,
            ..right
        },
        Location {
            sector: 60_000,
            ..right
        },
        Location {
            container: elsewhere,
            ..right
        },
    ];
    // Each from a region of its own that was not read yet.
    for (lie, (victim, bytes)) in lies.into_iter().zip(chunks.iter().step_by(4)) {
        pool.chunks().index.insert(victim, lie).expect("insert");
        let before = reader.counts();
        assert!(load(reader, victim) == *bytes, "{lie:?}");
        let after = reader.counts();
        // The wrong hint may be tried before the right one, or not at all.
        let denied = after.hints_denied - before.hints_denied;
        assert!(denied <= 1, "{denied} for {lie:?}");
    }
    let denied = reader.counts().hints_denied;
    assert!(
        denied >= 3,
        "{denied} of four lies were believed and found out"
    );
    assert!(pool.chunks().counts().false_positives >= 1);
    assert!(!pool.chunks().quarantine.has_damage(), "nobody's damage");
}

#[test]
fn a_cache_that_takes_one_chunk_gets_no_later_one() {
    let (pool, chunks) = stored(4);
    let reader = pool.reader();
    let ((first, bytes), (second, more)) = (&chunks[0], &chunks[1]);
    let Loaded::Chunk(chunk) = reader.load(first, DIRECT, &Caller::one()).expect("load") else {
        panic!("nobody keeps anything");
    };
    assert!(*chunk == **bytes && chunk.beside(second).is_none());
    let Loaded::Chunk(chunk) = reader.load(second, DIRECT, &Caller::one()).expect("load") else {
        panic!("nobody keeps anything");
    };
    assert!(*chunk == **more && chunk.beside(first).is_some());
    let counts = reader.counts();
    assert_eq!((counts.direct_reads, counts.hints_denied), (2, 0));
}

/// Eight readers, each of one chunk, at the same moment. A reader that shares a region that was not
/// completely verified must read it itself.
#[test]
fn readers_of_single_chunks_share_what_they_can() {
    let (pool, chunks) = stored(8);
    let reader = pool.reader();
    let together = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for (fingerprint, bytes) in &chunks {
            let together = &together;
            scope.spawn(move || {
                for _ in 0..200 {
                    together.wait();
                    match reader
                        .load(fingerprint, DIRECT, &Caller::one())
                        .expect("load")
                    {
                        Loaded::Chunk(chunk) => assert!(*chunk == **bytes),
                        Loaded::Kept => panic!("nobody keeps anything"),
                    }
                }
            });
        }
    });
    assert_eq!(reader.counts().hints_denied, 0);
}

/// A request that needs several regions looks up one of them in the index.
#[test]
fn what_a_request_needs_behind_its_first_region_comes_with_it() {
    let (pool, chunks) = stored(40);
    let reader = pool.reader();
    let load = |nth: usize, ahead_bytes: u64| {
        let keep = Caller::keeping();
        let mut approach = DIRECT;
        approach.ahead_bytes = ahead_bytes;
        let (fingerprint, bytes) = &chunks[nth];
        match reader.load(fingerprint, approach, &keep).expect("load") {
            Loaded::Chunk(chunk) => assert!(*chunk == **bytes),
            Loaded::Kept => panic!("nothing is in memory"),
        }
        keep.ahead.into_inner()
    };
    // Regions have two chunks here.
    let probes = || pool.chunks().index.counters().probes;
    let before = (reader.counts().region_reads, probes());
    let found = load(4, 6 * 4096);
    assert!(found == chunks[6..10], "{} chunks", found.len());
    assert_eq!(
        (reader.counts().region_reads, probes()),
        (before.0 + 3, before.1 + 1)
    );
    assert!(load(12, 4096).is_empty(), "the region has what is needed");
    // The directory behind the last region is no chunk, and the end of the container no damage.
    for ahead_bytes in [4 * 4096, 64 << 10, 1 << 30] {
        let found = load(36, ahead_bytes);
        assert!(found.is_empty() || found == chunks[38..], "{}", found.len());
    }
    assert!(!pool.chunks().quarantine.has_damage());
}
