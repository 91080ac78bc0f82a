//! Measures the cost of a trace: `cargo run --release -p fragpicker --example trace_costs`.
//!
//! Time is this thread's processor time for a request, as Linux counts it, best of several batches.
//! Memory is what the allocator hands out.

use fragpicker::{Trace, TraceOptions, TracedRequest};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: this is the system's allocator, unchanged, with a counter.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the contract is the system allocator's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the contract is the system allocator's.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the processor time of this thread, nanoseconds.
fn processor_ns() -> f64 {
    // Yielding makes the kernel account for the time up to now.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse().ok());
    first.unwrap_or(f64::NAN)
}

fn access(offset: u64, is_direct: bool) -> TracedRequest {
    TracedRequest {
        object: 1,
        offset,
        len: 8192,
        is_direct,
        is_write: false,
    }
}

fn main() {
    const REQUESTS: u64 = 500_000;
    println!("| requests | ns a request | bytes a range |\n|---|---|---|");
    type Request = fn(u64) -> TracedRequest;
    let kinds: [(&str, Request); 4] = [
        ("buffered, sequential", |n| access(n * 8192, false)),
        ("direct, 10,000 places", |n| {
            access(mix(n) % 10_000 * 8192, true)
        }),
        ("direct, 200,000 places", |n| {
            access(mix(n) % 200_000 * 8192, true)
        }),
        ("direct, all different: the coldest go", |n| {
            access(mix(n) >> 20 << 13, true)
        }),
    ];
    for (name, request) in kinds {
        let (mut best, mut bytes) = (f64::INFINITY, 0.0);
        for _ in 0..5 {
            let held = HELD.load(Ordering::Relaxed);
            let mut trace = Trace::new(TraceOptions::default());
            let start = processor_ns();
            (0..REQUESTS).for_each(|n| trace.record(black_box(&request(n))));
            best = f64::min(best, (processor_ns() - start) / REQUESTS as f64);
            bytes = (HELD.load(Ordering::Relaxed) - held) as f64 / trace.len() as f64;
        }
        println!("| {name} | {best:.0} | {bytes:.0} |");
    }
}
