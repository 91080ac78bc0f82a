//! Measures what a lookup costs: `cargo run --release -p ssd_tier --example lookup_costs -- [MIB]`,
//! with so much memory for the tier (64 by default).
//!
//! Each figure is the best of several batches: processor time of one call, nanoseconds. With two
//! threads it is the time of a call of each thread. The device is memory (`sim`), so a hit shows
//! what the tier adds to a read.

use chunking::{FingerprintKey, SealKey};
use media::{Disk, SeededRandom};
use sim::SimDisk;
use ssd_tier::{Access, Kind, KindShares, PoolKeys, Tier, TierOptions, TierSettings};
use std::hint::black_box;
use std::sync::Arc;
use units::{Fingerprint, IoClass, PoolId, UnixNanos};

const CALLS: u64 = 200_000;
const BATCHES: usize = 11;
const CHUNK_BYTES: usize = 4096;

struct Keys(FingerprintKey, bool);

impl PoolKeys for Keys {
    fn pool(&self) -> PoolId {
        PoolId([1; 16])
    }

    fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.0.fingerprint(chunk)
    }

    fn block_key(&self, salt: &[u8; 32]) -> Option<SealKey> {
        self.1.then(|| SealKey::new(salt))
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn unknown(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (word, salt) in bytes.chunks_exact_mut(8).zip(1u64..) {
        word.copy_from_slice(&mix(n.wrapping_mul(5).wrapping_add(salt)).to_le_bytes());
    }
    Fingerprint(bytes)
}

fn chunk(n: u64) -> Vec<u8> {
    let words = (0..CHUNK_BYTES as u64 / 8).map(|w| mix(n << 20 | w));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Returns the processor time of this thread, nanoseconds.
fn processor_ns() -> f64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse().ok());
    first.unwrap_or(f64::NAN)
}

fn measure(threads: u64, calls: u64, call: impl Fn(u64) + Sync) -> f64 {
    let batch = |thread: u64| {
        let start = processor_ns();
        let mut seed = mix(thread + 1);
        for _ in 0..calls {
            seed = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
            call(seed);
        }
        (processor_ns() - start) / calls as f64
    };
    let batches = (0..BATCHES).map(|_| {
        std::thread::scope(|scope| {
            let batch = &batch;
            let all: Vec<_> = (0..threads)
                .map(|t| scope.spawn(move || batch(t)))
                .collect();
            all.into_iter()
                .map(|t| t.join().unwrap_or(f64::MAX))
                .fold(0.0, f64::max)
        })
    });
    batches.fold(f64::MAX, f64::min)
}

fn row(name: &str, calls: u64, call: impl Fn(u64) + Sync) {
    let (one, two) = (measure(1, calls, &call), measure(2, calls, &call));
    println!("| {name} | {one:.0} | {two:.0} |");
}

fn tier(memory: u64, is_sealed: bool) -> (Tier, Arc<Keys>) {
    let disk: Arc<dyn Disk> = SimDisk::unrecorded(sim::Image::new());
    let keys = Arc::new(Keys(FingerprintKey::new([7; 32]), is_sealed));
    let mut options = TierOptions::new(512 << 20, memory);
    options.daily_writes_hundredths = u32::MAX;
    let settings = TierSettings::new(KindShares::ALONE);
    let random = Arc::new(SeededRandom::new(1));
    let pool = Arc::<Keys>::clone(&keys);
    let tier = Tier::new(disk, "tier", pool, random, options, settings);
    while tier.step(UnixNanos(1), 1 << 30).has_more {}
    (tier, keys)
}

/// Measures the cost of evidence for `policy advise`. The sample is that of a client that reads 100
/// million chunks.
fn measured(tier: &Tier) {
    let access = Access {
        bytes: CHUNK_BYTES as u32,
        is_random: true,
        is_hit: false,
        ns: 1,
    };
    let class = IoClass(7);
    row(
        "sampled while few chunks are known: note",
        CALLS / 20,
        |n| {
            tier.note_read(&unknown(n % 1000), class, &access);
        },
    );
    for n in 0..4_000_000 {
        let name = unknown(n);
        if tier.samples(&name, class) {
            tier.note_read(&name, class, &access);
        }
    }
    row("not in the sample, nearly always", CALLS, |n| {
        let name = unknown(n % 100_000_000);
        if tier.samples(&name, class) {
            tier.note_read(&name, class, &access);
        }
    });
}

fn main() {
    let mib = std::env::args().nth(1).and_then(|a| a.parse().ok());
    let memory = mib.unwrap_or(64u64) << 20;
    println!("| call | one thread, ns | two threads, ns |\n|---|---|---|");
    row("(the loop around a call)", CALLS, |n| {
        black_box(unknown(n));
    });
    for is_sealed in [true, false] {
        let (tier, keys) = tier(memory, is_sealed);
        if is_sealed {
            row("miss, empty", CALLS, |n| {
                black_box(tier.lookup(&unknown(n), Kind::Data));
            });
        }
        const CHUNKS: u64 = 20_000;
        let mut names = Vec::new();
        for n in 0..CHUNKS {
            let bytes = chunk(n);
            names.push(keys.fingerprint(&bytes));
            if let Some(name) = names.last() {
                tier.offer(name, Kind::Data, IoClass(0), &bytes);
            }
            tier.step(UnixNanos(n as i64), 1);
        }
        let status = tier.status();
        println!(
            "| ({} chunks here, sealed: {is_sealed}) | | |",
            status.chunks
        );
        measured(&tier);
        row("miss", CALLS, |n| {
            black_box(tier.lookup(&unknown(n), Kind::Data));
        });
        row(
            "hit: read from memory, open, verify 4 KiB",
            CALLS / 20,
            |n| {
                let name = names.get((n % (CHUNKS / 2)) as usize);
                black_box(name.and_then(|name| tier.lookup(name, Kind::Data)));
            },
        );
        let bytes = chunk(1);
        row("offer of what is here", CALLS, |n| {
            if let Some(name) = names.get((n % (CHUNKS / 2)) as usize) {
                black_box(tier.offer(name, Kind::Data, IoClass(0), &bytes));
            }
        });
    }
}
