//! Compares hit ratios of the default policy with LRU of as many chunks, under scans and other
//! pollution.
//!
//! `cargo test --profile ci -p page_cache hit_ratio:: -- --nocapture` prints the table of
//! `docs/evaluation/page-cache.md`. It has counts only: they are the same on every machine.

use crate::recording;

use classes::ClassSet;
use page_cache::{
    EvictionPolicy, FrameHeat, FrameId, Heat, NoEvents, PageCache, PageCacheOptions, S3Fifo, Use,
};
use recording::{Numbers, fingerprint};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

const BUDGET: u64 = 16 << 20;
const READS: usize = 300_000;
/// First number of scanned chunks.
const SCANNED: u64 = 1 << 40;

/// A read of a chunk, and whether it counts for the hit ratio.
#[derive(Clone, Copy)]
struct Read {
    chunk: u64,
    for_use: Use,
    counts: bool,
}

fn demand(chunk: u64) -> Read {
    Read {
        chunk,
        for_use: Use::Demand,
        counts: true,
    }
}

/// Evicts the least recently used chunk first.
#[derive(Default)]
struct Lru {
    at: HashMap<u64, u64>,
    by_time: BTreeMap<u64, u64>,
    now: u64,
}

impl Lru {
    fn read(&mut self, chunk: u64, chunks_max: usize) -> bool {
        self.now += 1;
        let before = self.at.insert(chunk, self.now);
        before.map(|time| self.by_time.remove(&time));
        self.by_time.insert(self.now, chunk);
        if self.at.len() > chunks_max
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.at.remove(&oldest);
        }
        before.is_some()
    }
}

/// CLOCK with the hits that the cache counts: another policy behind the same trait.
#[derive(Default)]
struct Clock(VecDeque<FrameId>);

impl EvictionPolicy for Clock {
    fn inserted(&mut self, frame: FrameId, _: Heat, _: Use) {
        self.0.push_back(frame);
    }

    fn victim(&mut self, _: ClassSet, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        loop {
            let frame = self.0.pop_front()?;
            if frames.cool(frame).hits == 0 {
                return Some(frame);
            }
            self.0.push_back(frame);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<FrameId>()
    }
}

/// Returns a cache full of unwanted chunks.
fn full(policy: Box<dyn EvictionPolicy>) -> PageCache {
    let cache = PageCache::new(
        PageCacheOptions::new(BUDGET, 42),
        policy,
        Arc::new(NoEvents),
    );
    for n in 0..20_000 {
        cache.insert(&fingerprint(1 << 50 | n), &[1], None, Use::Scan);
    }
    cache
}

fn read(cache: &PageCache, read: &Read) -> bool {
    let fingerprint = fingerprint(read.chunk);
    let hit = cache.by_content(&fingerprint, None, read.for_use).is_some();
    if !hit {
        cache.insert(&fingerprint, &[1], None, read.for_use);
    }
    hit
}

struct Zipf {
    numbers: Numbers,
    chunks: f64,
    power: f64,
}

impl Zipf {
    fn new(chunks: u64, theta: f64) -> Self {
        let numbers = Numbers(11);
        let (chunks, power) = (chunks as f64, 1.0 - theta);
        Self {
            numbers,
            chunks,
            power,
        }
    }

    fn next(&mut self) -> u64 {
        let u = self.numbers.below(1 << 52) as f64 / (1u64 << 52) as f64;
        (1.0 + u * (self.chunks.powf(self.power) - 1.0)).powf(1.0 / self.power) as u64
    }
}

/// Zipf reads with one other read after every `every` of them.
fn with(every: usize, mut other: impl FnMut(u64) -> Read) -> Vec<Read> {
    let mut zipf = Zipf::new(80_000, 0.9);
    let mut others = 0..;
    (0..READS)
        .flat_map(|n| {
            let more = (n % every == every - 1).then(|| other(others.next().unwrap_or(0)));
            [Some(demand(zipf.next())), more]
        })
        .flatten()
        .collect()
}

fn passing(chunk: u64, for_use: Use) -> Read {
    let chunk = SCANNED + chunk;
    Read {
        chunk,
        for_use,
        counts: false,
    }
}

/// Returns name, reads, and the minimum lead of the policy over LRU, in points.
fn traces() -> Vec<(&'static str, Vec<Read>, f64)> {
    let zipf = |theta: f64| {
        let mut zipf = Zipf::new(80_000, theta);
        (0..READS).map(|_| demand(zipf.next())).collect()
    };
    let mut moved = Zipf::new(80_000, 0.9);
    let moving = (0..READS as u64).map(|n| demand(moved.next() + n / 100_000 * 1_000_000));
    let looped = (0..READS as u64).map(|n| demand(n % 9000));
    // Chunks of 64 KiB that a client reads 4 KiB at a time: sixteen reads of each in a row.
    let in_pieces = with(1, |n| passing(n / 16, Use::Demand));
    vec![
        ("zipf 0.9", zipf(0.9), 0.0),
        ("zipf 0.7", zipf(0.7), 0.0),
        (
            "zipf 0.9 and a scan as long",
            with(1, |n| passing(n, Use::Scan)),
            5.0,
        ),
        (
            "the same, nobody says that it is a scan",
            with(1, |n| passing(n, Use::Demand)),
            5.0,
        ),
        (
            "zipf 0.9 and prefetch that nobody wants",
            with(1, |n| passing(n, Use::Prefetch)),
            5.0,
        ),
        (
            "zipf 0.9 and a scan four times over 8,000 chunks",
            with(8, |n| passing(n % 8000, Use::Scan)),
            0.0,
        ),
        (
            "zipf 0.9 and a stream that reads each chunk 16 times",
            in_pieces,
            0.0,
        ),
        ("zipf 0.9 whose hot set moves twice", moving.collect(), -2.0),
        ("a loop over 9,000 chunks", looped.collect(), 20.0),
    ]
}

#[test]
fn the_table() {
    println!("| reads | LRU, % | CLOCK, % | S3-FIFO, % |\n|---|---|---|---|");
    for (name, reads, above) in traces() {
        let (cache, clock) = (
            full(Box::new(S3Fifo::new(BUDGET))),
            full(Box::new(Clock::default())),
        );
        let mut lru = Lru::default();
        // Chunks of one byte take a granule each; LRU gets as many as the cache keeps.
        let chunks_max = cache.counters().frames as usize;
        let (mut hits, mut counted) = ([0; 3], 0);
        for (n, one) in reads.iter().enumerate() {
            let hit = [
                lru.read(one.chunk, chunks_max),
                read(&clock, one),
                read(&cache, one),
            ];
            // The first fifth warms the cache up.
            if one.counts && n > reads.len() / 5 {
                counted += 1;
                hits.iter_mut()
                    .zip(hit)
                    .for_each(|(hits, hit)| *hits += u64::from(hit));
            }
        }
        let [lru, clock, ours] = hits.map(|hits| 100.0 * hits as f64 / f64::from(counted));
        println!("| {name} | {lru:.1} | {clock:.1} | {ours:.1} |");
        assert!(ours >= lru + above, "{name}: {ours} beside {lru}");
    }
}

/// Half of the memory is hot. Then ten times the memory is read once, without a hint that this is a
/// scan.
#[test]
fn a_scan_leaves_the_hot_set_where_it_is() {
    for for_use in [Use::Demand, Use::Scan, Use::Prefetch] {
        let cache = full(Box::new(S3Fifo::new(BUDGET)));
        let frames = cache.counters().frames;
        let mut numbers = Numbers(5);
        for _ in 0..20 * frames {
            read(&cache, &demand(numbers.below(frames / 2)));
        }
        for n in 0..10 * frames {
            read(&cache, &passing(n, for_use));
        }
        let hot = 0..frames / 2;
        let left = hot.filter(|n| cache.is_content_resident(&fingerprint(*n)));
        let left = 200 * left.count() as u64 / frames;
        assert!(
            left >= 95,
            "{left} % of the hot set after a scan of {for_use:?}"
        );
    }
}
