//! Measures the cost of events: `cargo run --release -p duet --example event_costs -- [PAGES]`.
//!
//! First table: this thread's processor time as Linux counts it, best of several batches. Each page
//! is added, all are fetched, each is removed, and all are fetched. An event therefore includes its
//! share of the table's growth and shrinking.
//!
//! Second table: a working page cache in real time. The same number of pages come and leave each
//! second, and sessions fetch every 10 ms, as in the measurements of Duet's overhead (SOSP'15).
//! Wake-ups count; subtract the row without sessions.

use duet::{Duet, DuetOptions, Events, Mask, NothingPresent, Page, Scope, Session, Space};
use std::hint::black_box;
use std::time::{Duration, Instant};

const BATCHES: usize = 7;
const FETCH_EVERY: Duration = Duration::from_millis(10);
/// Pages that come, and pages that leave, in that time: 25,000 a second, a disk's whole bandwidth.
const PAGES_A_FETCH: u64 = 250;
/// Pages in the cache.
const CACHED: u64 = 100_000;
const FETCHES: u64 = 500;

fn page(n: u64) -> Page {
    Page {
        space: Space::Chunks,
        object: n >> 16,
        generation: 0,
        index: n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
    }
}

/// Processor time of this thread, nanoseconds.
fn processor_ns() -> f64 {
    // Yielding makes the kernel update the counter.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse().ok());
    first.unwrap_or(f64::NAN)
}

/// Returns nanoseconds per page.
fn timed(pages: u64, act: impl FnOnce()) -> f64 {
    let start = processor_ns();
    act();
    (processor_ns() - start) / pages as f64
}

fn report(duet: &Duet, events: Events, pages: u64) -> f64 {
    timed(pages, || {
        (0..pages).for_each(|n| duet.record(black_box(&page(n)), events));
    })
}

fn fetch_all(sessions: &[Session], pages: u64) -> f64 {
    let mut items = Vec::with_capacity(1000);
    timed(pages * sessions.len().max(1) as u64, || {
        for session in sessions {
            while session.pending() > 0 {
                session.fetch(&NothingPresent, 1000, &mut items);
                items.clear();
            }
        }
    })
}

fn register(duet: &std::sync::Arc<Duet>, scope: Scope, mask: Mask) -> Option<Session> {
    let session = duet.register(Space::Chunks, scope, mask, 0).ok()?;
    session.fetch(&NothingPresent, 1, &mut Vec::new());
    Some(session)
}

/// Returns this thread's use of a processor, percent, while pages come and leave and sessions
/// fetch.
fn share(sessions: usize) -> f64 {
    let duet = Duet::new(DuetOptions {
        items_max: CACHED as usize,
        seed: 9,
    });
    let register = |_| register(&duet, Scope::Everything, Mask::EXISTS);
    let registered: Vec<Session> = (0..sessions).filter_map(register).collect();
    let mut items = Vec::new();
    (0..CACHED).for_each(|n| duet.record(&page(n), Events::ADDED));
    fetch_all(&registered, CACHED);
    let (begun, busy) = (Instant::now(), processor_ns());
    for round in 0..FETCHES {
        let first = CACHED + round * PAGES_A_FETCH;
        for n in first..first + PAGES_A_FETCH {
            duet.record(&page(n), Events::ADDED);
            duet.record(&page(n - CACHED), Events::REMOVED);
        }
        for session in &registered {
            while session.pending() > 0 {
                session.fetch(&NothingPresent, 256, &mut items);
                black_box(&mut items).clear();
            }
        }
        let next = begun + FETCH_EVERY * (round + 1) as u32;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    (processor_ns() - busy) / begun.elapsed().as_nanos() as f64 * 100.0
}

fn main() {
    let argument = std::env::args().nth(1).and_then(|a| a.parse().ok());
    let pages: u64 = argument.unwrap_or(1_000_000);
    println!("| sessions | added, ns | fetched, ns an item | removed, ns | bytes a pending page |");
    println!("|---|---|---|---|---|");
    let kinds = [
        ("0", 0, true),
        ("1", 1, true),
        ("8", 8, true),
        ("8 of other objects", 8, false),
    ];
    for (name, sessions, concerned) in kinds {
        let mut best = [f64::INFINITY; 4];
        for _ in 0..BATCHES {
            let duet = Duet::new(DuetOptions {
                items_max: pages as usize * 2,
                seed: 9,
            });
            let scope = || match concerned {
                true => Scope::Everything,
                false => Scope::Object(u64::MAX),
            };
            let registered: Vec<Session> = (0..sessions)
                .filter_map(|_| register(&duet, scope(), Mask::EXISTS))
                .collect();
            let added = report(&duet, Events::ADDED, pages);
            let pending = duet.pending();
            let bytes = duet.memory_bytes() as f64 / pending as f64;
            let fetched = fetch_all(&registered, pages);
            let removed = report(&duet, Events::REMOVED, pages);
            fetch_all(&registered, pages);
            assert_eq!(duet.pending(), 0);
            let now = [added, fetched, removed, bytes];
            best.iter_mut().zip(now).for_each(|(b, n)| *b = b.min(n));
        }
        let [added, fetched, removed, bytes] = best;
        println!("| {name} | {added:.1} | {fetched:.1} | {removed:.1} | {bytes:.1} |");
    }

    println!();
    println!("| sessions | percent of a processor |");
    println!("|---|---|");
    for sessions in [0, 1, 3, 8] {
        println!("| {sessions} | {:.2} |", share(sessions));
    }
}
