//! Pages in memory, by place and by content (Dual-Dedup, 2019): a chunk that many places hold is
//! kept once, and a read of any of them is a hit.
//!
//! Invariant: what is served for a place is what was inserted for it and not forgotten since; an
//! unwritten page is known by place and version only, so it is never served for another address;
//! memory, tables included, stays within one budget. Everything here may be lost at any moment.
//! Called by the store, which verifies bytes before it inserts them.
#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod cache;
mod clean;
mod content;
mod counters;
mod events;
mod extent;
mod memory;
mod policy;
mod present;
mod table;
mod unwritten;

use parking_lot::{Mutex, MutexGuard};

pub use cache::PageCache;
pub use counters::Counters;
pub use events::{NoEvents, PageEvents};
pub use memory::Frame;
pub use policy::{EvictionPolicy, FrameHeat, FrameId, Heat, S3Fifo};

/// Bytes of an unwritten page.
pub const PAGE_BYTES: usize = 4096;
/// Longest chunk that is kept, bytes; longer ones are handed back and not remembered.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;

/// A chunk of an object: `object` is a number the store gives to each open volume or snapshot,
/// `chunk` counts that object's chunks (or is any other number that stands for one of them).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Which object.
    pub object: u64,
    /// Which of its chunks.
    pub chunk: u64,
}

/// Why bytes are read: says what a read is worth when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Use {
    /// Somebody waits for them and may come again.
    #[default]
    Demand,
    /// Fetched ahead; the first demand for them is what they were fetched for, not a second use.
    Prefetch,
    /// Read once in passing (sequential streams, backup, maintenance): makes nothing hot.
    Scan,
}

/// Sizes and a secret.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// All memory of the cache: bytes, tables and allocations. Below 4 MiB tables are most of it.
    pub bytes_max: u64,
    /// Of it, bytes of unwritten pages at most.
    pub unwritten_bytes_max: u64,
    /// Any number that clients cannot guess: they must not be able to choose places that collide.
    pub seed: u64,
}

impl Options {
    /// `bytes_max`, half of it at most for unwritten pages.
    pub fn new(bytes_max: u64, seed: u64) -> Self {
        Self {
            bytes_max,
            unwritten_bytes_max: bytes_max / 2,
            seed,
        }
    }
}

/// Two rounds of a finalizer (splitmix64): all bits of the result depend on all bits of the pair.
fn hash_pair(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(a ^ seed).wrapping_add(b))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A part of a table under its own lock, on cache lines of its own (two: they are fetched in
/// pairs), so that threads in different parts do not disturb each other.
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T> Shard<T> {
    fn new(part: T) -> Self {
        Self(Mutex::new(part))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}
