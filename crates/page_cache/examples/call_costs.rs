//! Measures the cost of a call: `cargo run --release -p page_cache --example call_costs -- [MIB
//! [ROW]]`. With ROW it measures only rows whose name contains it.
//!
//! Each figure is the best of several batches: processor time of one call, nanoseconds. Linux
//! counts it, so that other jobs disturb less. With two threads it is the time of a call of each
//! thread: the same as with one thread when the cache scales.

use page_cache::{
    NoEvents, PAGE_BYTES, PageCache, PageCacheOptions, PageEvents, Place, S3Fifo, Use,
};
use std::hint::black_box;
use std::sync::Arc;
use units::{Fingerprint, IoClass};

const CALLS: u64 = 300_000;
const BATCHES: usize = 11;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (word, salt) in bytes.chunks_exact_mut(8).zip(1u64..) {
        word.copy_from_slice(&mix(n.wrapping_mul(5).wrapping_add(salt)).to_le_bytes());
    }
    Fingerprint(bytes)
}

fn place(n: u64) -> Place {
    Place {
        object: 1,
        chunk: n,
    }
}

/// Listener that counts nothing but is not the default: the cost of an event is a call.
struct Listener;

impl PageEvents for Listener {
    fn added(&self, place: Place) {
        black_box(place);
    }
}

/// Returns the processor time of this thread, nanoseconds.
fn processor_ns() -> f64 {
    // Yielding makes the kernel account for the time up to now.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse().ok());
    first.unwrap_or(f64::NAN)
}

/// Returns the nanoseconds of one call; `threads` run the same batch at once.
fn measure(threads: u64, call: impl Fn(u64) + Sync) -> f64 {
    let batch = |thread: u64| {
        let start = processor_ns();
        let mut seed = mix(thread + 1);
        for _ in 0..CALLS {
            seed = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
            call(seed);
        }
        (processor_ns() - start) / CALLS as f64
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

fn row(name: &str, call: impl Fn(u64) + Sync) {
    let wanted = std::env::args().nth(2).unwrap_or_default();
    if !name.contains(&wanted) {
        return;
    }
    let (one, two) = (measure(1, &call), measure(2, &call));
    println!("| {name} | {one:.0} | {two:.0} |");
}

fn cache(bytes_max: u64, events: Arc<dyn PageEvents>) -> PageCache {
    let policy = Box::new(S3Fifo::new(bytes_max));
    PageCache::new(PageCacheOptions::new(bytes_max, 7), policy, events)
}

#[expect(clippy::too_many_lines, reason = "one script")]
fn main() {
    let mib = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(1024u64);
    let bytes_max = mib << 20;
    let filled = cache(bytes_max, Arc::new(NoEvents));
    let chunk = [7u8; 4096];
    let start = processor_ns();
    let mut chunks = 0;
    while filled.counters().evictions == 0 {
        for _ in 0..1000 {
            filled.insert(
                &fingerprint(chunks),
                &chunk,
                Some(place(chunks)),
                Use::Demand,
            );
            chunks += 1;
        }
    }
    let filling = (processor_ns() - start) / chunks as f64;
    // The most recent ones are all in memory.
    let resident = filled.counters().frames - 2000;
    let first = chunks - resident;
    let hot = 2000.min(resident);
    let counters = filled.counters();
    let besides = counters.bytes_resident as f64 / counters.frames as f64 - 4096.0;
    println!(
        "{} chunks of 4 KiB in {mib} MiB, {besides:.0} bytes each besides their own; filling took \
         {filling:.0} ns each\n",
        counters.frames
    );
    println!("| call | one thread, ns | two threads, ns |\n|---|---|---|");
    row("(the loop around a call)", |n| {
        black_box(fingerprint(n % resident));
    });
    row("hit by place, 8 MiB of chunks", |n| {
        black_box(filled.by_place(place(first + n % hot), Use::Demand));
    });
    row("hit by place, all chunks", |n| {
        black_box(filled.by_place(place(first + n % resident), Use::Demand));
    });
    row("hit by place, one chunk", |_| {
        black_box(filled.by_place(place(first + 5), Use::Demand));
    });
    row("hit by content, 8 MiB of chunks", |n| {
        black_box(filled.by_content(&fingerprint(first + n % hot), None, Use::Demand));
    });
    row("hit by content, all chunks", |n| {
        black_box(filled.by_content(&fingerprint(first + n % resident), None, Use::Demand));
    });
    row("miss by place", |n| {
        black_box(filled.by_place(place(chunks + n), Use::Demand));
    });
    row("miss by content", |n| {
        black_box(filled.by_content(&fingerprint(chunks + n), None, Use::Demand));
    });
    row("hit by place and copy of 4 KiB, all chunks", |n| {
        let mut into = [0; 4096];
        if let Some(frame) = filled.by_place(place(first + n % resident), Use::Demand) {
            into.copy_from_slice(&frame);
        }
        black_box(into);
    });
    let others = |n: u64| chunks + (n >> 20);
    row("insert of 4 KiB, evicting another", |n| {
        filled.insert(
            &fingerprint(others(n)),
            &chunk,
            Some(place(others(n))),
            Use::Demand,
        );
    });
    let silent = cache(bytes_max, Arc::new(NoEvents));
    row("the same, another cache", |n| {
        let (n, for_use) = (others(n), Use::Demand);
        silent.insert(&fingerprint(n), &chunk, Some(place(n)), for_use);
    });
    let heard = cache(bytes_max, Arc::new(Listener));
    row("the same with a listener", |n| {
        heard.insert(
            &fingerprint(others(n)),
            &chunk,
            Some(place(others(n))),
            Use::Demand,
        );
    });
    let duet = duet::Duet::new(duet::DuetOptions {
        items_max: 1 << 20,
        seed: 7,
    });
    let fed = cache(bytes_max, Arc::<duet::Duet>::clone(&duet));
    let insert_fed = |n: u64| {
        let (n, for_use) = (others(n), Use::Demand);
        fed.insert(&fingerprint(n), &chunk, Some(place(n)), for_use);
    };
    row("the same with Duet, no session", insert_fed);
    let (scope, mask) = (duet::Scope::Everything, duet::Mask::EXISTS);
    if let Ok(session) = duet.register(duet::Space::Chunks, scope, mask, 0) {
        let items = parking_lot::Mutex::new(Vec::new());
        row("the same, one session that fetches every 1000", |n| {
            insert_fed(n);
            if n % 1000 == 0 {
                let mut items = items.lock();
                session.fetch(&fed, 4000, &mut items);
                items.clear();
            }
        });
    }
    let page = [9u8; PAGE_BYTES];
    let written = cache(bytes_max, Arc::new(NoEvents));
    row("put of an unwritten page, new", |n| {
        written.put_dirty(1, n >> 20, 1, &page, IoClass(0));
        written.destaged(1, n >> 20, 1);
    });
    (0..hot).for_each(|n| written.put_dirty(2, n, 1, &page, IoClass(0)));
    row("read of an unwritten page", |n| {
        black_box(written.dirty(2, n % hot, 1));
    });
    let version = std::sync::atomic::AtomicU64::new(2);
    row("put of an unwritten page, over another", |n| {
        let next = version.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        written.put_dirty(2, n % hot, next, &page, IoClass(0));
    });
}
