//! Keeps pages in memory, by place and by content (Dual-Dedup, 2019). A chunk that many places
//! contain is kept once, and a read of any of them is a hit.
//!
//! The store calls this. It verifies bytes before it inserts them.
//! Invariant: the bytes served for a place were inserted for it and not forgotten since. A dirty
//! page is found only by place and version, so it is never served for another address. Memory,
//! tables included, stays within one budget. Everything here may be lost at any moment. Classes of
//! I/O decide only what is evicted first (Differentiated Storage Services, SOSP'11).
#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod cache;
mod clean;
mod content;
mod counters;
mod dirty;
mod events;
mod extent;
mod memory;
mod policy;
mod present;
mod table;

use parking_lot::{Mutex, MutexGuard};
use units::IoClass;

pub use cache::PageCache;
pub use counters::{ClassCounters, Counters};
pub use events::{NoEvents, PageEvents};
pub use memory::Frame;
pub use policy::{EvictionPolicy, FrameHeat, FrameId, Heat, S3Fifo};

/// Size of a dirty page, bytes.
pub const PAGE_BYTES: usize = 4096;
/// Maximum size of a kept chunk, bytes. Longer ones are returned and not kept.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;

/// A chunk of an object. `object` is a number that the store assigns to each open volume or
/// snapshot. `chunk` counts that object's chunks (or is any other number that stands for one of
/// them).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Number of the object.
    pub object: u64,
    /// Number of the chunk in the object.
    pub chunk: u64,
}

/// Purpose of a read. It decides what the bytes are worth when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Use {
    /// A client waits for the bytes and may read them again.
    #[default]
    Demand,
    /// The bytes are fetched ahead. The first demand for them is their purpose, not a second use.
    Prefetch,
    /// The bytes are read once in passing (sequential streams, backup, maintenance). This makes
    /// nothing hot.
    Scan,
}

impl Use {
    /// Makes the purpose of a request of that class.
    pub const fn of(self, class: IoClass) -> Purpose {
        Purpose {
            for_use: self,
            class,
        }
    }
}

/// Purpose of a request. It decides what the bytes are worth when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Purpose {
    /// Purpose of the read.
    pub for_use: Use,
    /// Class of the request. A number that no policy can have counts as 0, unclassified.
    pub class: IoClass,
}

impl Purpose {
    fn of_known_class(self) -> Self {
        Self {
            class: classes::known(self.class),
            ..self
        }
    }
}

impl From<Use> for Purpose {
    fn from(for_use: Use) -> Self {
        for_use.of(IoClass(0))
    }
}

/// Sizes and secret of a cache.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheOptions {
    /// All memory of the cache: bytes, tables and allocations. Below 4 MiB tables take most of it.
    pub bytes_max: u64,
    /// Part of it that dirty pages may take.
    pub dirty_bytes_max: u64,
    /// A number that clients cannot guess. They must not be able to choose places that collide.
    pub seed: u64,
}

impl PageCacheOptions {
    /// Makes options with `bytes_max`, at most half of it for dirty pages.
    pub fn new(bytes_max: u64, seed: u64) -> Self {
        Self {
            bytes_max,
            dirty_bytes_max: bytes_max / 2,
            seed,
        }
    }
}

/// Hashes a pair with two rounds of a finalizer (splitmix64). All bits of the result depend on all
/// bits of the pair.
fn hash_pair(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(a ^ seed).wrapping_add(b))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A part of a table under its own lock. It has its own cache lines (two: they are fetched in
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
