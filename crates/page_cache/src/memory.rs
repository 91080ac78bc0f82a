//! The budget, and the allocations that frames are made of.
//!
//! Invariant: whatever this room allocates is charged here, with what the allocator adds, until it
//! is given back to the allocator. A buffer that nobody holds any more waits in a free list (still
//! charged) for the next chunk of its size: memory that a guest has touched once is much cheaper
//! than memory that it has not. Called by the cache.

use crate::{CHUNK_BYTES_MAX, lock};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A chunk or page in memory. Clones are cheap; the bytes live as long as any clone does, also
/// after the cache has evicted them.
#[derive(Clone)]
pub struct Frame(pub(crate) Arc<Run>);

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Bytes that give themselves back to the budget.
pub(crate) struct Run {
    bytes: Box<[u8]>,
    memory: Arc<Memory>,
}

impl Run {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn fill(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.bytes.len(), bytes.len());
        self.bytes.copy_from_slice(bytes);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.bytes));
    }
}

/// What `Arc<Run>` takes: two counts, a slice, a pointer; and the allocator's header.
const RUN_BYTES: u64 = allocation_bytes(16 + 16 + 8);

/// What the allocator takes for `len` bytes: eight in front, in steps of sixteen.
const fn allocation_bytes(len: usize) -> u64 {
    ((len + 8).next_multiple_of(16)) as u64
}

#[derive(Default)]
struct Free {
    /// Buffers of 4, 8, 16, 32 and 64 KiB.
    by_class: [Vec<Box<[u8]>>; 5],
}

/// See the module's head.
pub(crate) struct Memory {
    bytes_max: u64,
    used: AtomicU64,
    free: Mutex<Free>,
}

impl Memory {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            used: AtomicU64::new(0),
            free: Mutex::default(),
        })
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.used() > self.bytes_max
    }

    /// Tables were `before` bytes and are `now`.
    pub fn adjust(&self, before: usize, now: usize) {
        if now > before {
            self.charge((now - before) as u64);
        } else {
            self.credit((before - now) as u64);
        }
    }

    fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn credit(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A frame with these bytes. `evict` makes something go, or says that nothing is left; then
    /// the frame is over the budget: all of it is held by callers.
    pub fn obtain(self: &Arc<Self>, bytes: &[u8], evict: &mut dyn FnMut() -> bool) -> Arc<Run> {
        let cost = allocation_bytes(bytes.len()) + RUN_BYTES;
        loop {
            if let Some(mut buffer) = self.reuse(bytes.len()) {
                self.charge(RUN_BYTES);
                buffer.copy_from_slice(bytes);
                return self.run(buffer);
            }
            if self.used() + cost <= self.bytes_max || !(self.release_free() || evict()) {
                self.charge(cost);
                return self.run(bytes.into());
            }
        }
    }

    fn run(self: &Arc<Self>, bytes: Box<[u8]>) -> Arc<Run> {
        let memory = Arc::clone(self);
        Arc::new(Run { bytes, memory })
    }

    fn reuse(&self, len: usize) -> Option<Box<[u8]>> {
        let class = class_of(len)?;
        lock(&self.free).by_class.get_mut(class)?.pop()
    }

    /// Gives one free buffer to the allocator; false when there is none.
    pub fn release_free(&self) -> bool {
        let mut free = lock(&self.free);
        let buffer = free.by_class.iter_mut().find_map(Vec::pop);
        drop(free);
        let Some(buffer) = buffer else {
            return false;
        };
        self.credit(allocation_bytes(buffer.len()));
        true
    }

    fn give_back(&self, buffer: Box<[u8]>) {
        self.credit(RUN_BYTES);
        let class = class_of(buffer.len());
        let mut free = lock(&self.free);
        match class.and_then(|class| free.by_class.get_mut(class)) {
            Some(list) if !self.is_over() => list.push(buffer),
            _ => {
                drop(free);
                self.credit(allocation_bytes(buffer.len()));
            }
        }
    }
}

fn class_of(len: usize) -> Option<usize> {
    let whole = len.is_power_of_two() && (4096..=CHUNK_BYTES_MAX).contains(&len);
    whole.then(|| (len.ilog2() - 12) as usize)
}
