//! The memory of layouts as the allocator counts it: of hostile disks of every kind, attached and
//! written to. The layouts' own count is compared with it, because budgets rest on that count.
//!
//! This test is a process of its own, because the allocator's count covers the whole process.
//! `LAYOUT_DISKS` says how many disks of each kind (default 3), `LAYOUT_SEED` where to begin.

use disk_layout::fuzzing::Attack;
use disk_layout::hostile::{Dice, KINDS};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

/// The system's allocator with a count of the bytes in use.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting touches none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are those of `System::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are those of `System::dealloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads, texts of volume groups and the like, for the length of a step.
const TRANSIENT_BYTES: usize = 3 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

/// Bytes that the layout has allocated: all that goes when it does.
fn measured(attack: Attack) -> usize {
    let Attack { disk, layout, .. } = attack;
    let before = LIVE.load(Relaxed);
    drop(layout);
    let bytes = before - LIVE.load(Relaxed);
    drop(disk);
    bytes
}

fn attack(kind: usize, seed: u64, memory: u64) {
    let name = KINDS[kind].0;
    let mut dice = Dice::new(seed * 31 + kind as u64);
    let mut of = Attack::new(kind, &mut dice, memory);
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    of.settle();
    let peak = PEAK.load(Relaxed) - before;
    let first = of.layout.counters();
    for _ in 0..6 {
        of.disturb(&mut dice);
        of.settle();
    }
    of.look_up();
    let counters = of.layout.counters();
    let work = of.work_max;
    let bytes = measured(of);
    let counted = counters.memory_bytes as usize;
    println!(
        "{name} {seed}: counted {counted}, measured {bytes}, peak {peak}, work {work}, {first:?}"
    );
    assert!(bytes <= counted + 4096, "{name} {seed}: counts too little");
    assert!(
        counted <= 2 * bytes + (32 << 10),
        "{name} {seed}: counts too much"
    );
    let most = memory as usize / 4 * 5 + TRANSIENT_BYTES;
    assert!(peak <= most, "{name} {seed}: {peak} bytes at most");
}

#[test]
fn hostile_disks_take_no_more_memory_and_work_than_allowed() {
    let seed = number("LAYOUT_SEED", 1);
    for kind in 0..KINDS.len() {
        for n in 0..number("LAYOUT_DISKS", 3) {
            let memory = [256 << 10, 1 << 20, 8 << 20][n as usize % 3];
            attack(kind, seed + n, memory);
        }
    }
}
