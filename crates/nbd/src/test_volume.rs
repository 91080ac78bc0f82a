//! Implements a device for the tests: in memory, behind a gate that holds selected requests. Tests
//! of sessions and servers share it.
//!
//! Invariant: a request is counted as it begins, before it waits. Nothing waits once the gate is
//! open.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use volume::{MemoryVolume, Operation, Slow, Volume, VolumeRequest};

/// Limit for requests that must begin. Nothing waits for it unless the test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// The device, and counts of its requests.
pub(crate) struct Gated {
    /// Its contents, behind the gate.
    pub(crate) memory: MemoryVolume,
    stops: &'static [Operation],
    gate: Mutex<Gate>,
    moved: Condvar,
    /// Reads that began.
    pub(crate) reads: AtomicU64,
    /// Number of those with the largest size.
    pub(crate) large_reads: AtomicU64,
    /// Writes that began.
    pub(crate) writes: AtomicU64,
}

struct Gate {
    open: bool,
    waiting: usize,
}

impl Gated {
    /// Makes a device whose `stops` operations wait until the gate is open.
    pub(crate) fn new(stops: &'static [Operation]) -> Arc<Self> {
        let open = stops.is_empty();
        Arc::new(Self {
            memory: MemoryVolume::new(64 << 20),
            stops,
            gate: Mutex::new(Gate { open, waiting: 0 }),
            moved: Condvar::new(),
            reads: AtomicU64::new(0),
            large_reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        })
    }

    /// Returns the device as servers see it. Reads at the offsets that are `cached` need no thread,
    /// and do not stop at the gate.
    pub(crate) fn volume(self: &Arc<Self>, cached: fn(u64) -> bool) -> Arc<dyn Volume> {
        Arc::new(self.slow(cached))
    }

    /// Returns the same, of a device that begins with every read that is announced.
    pub(crate) fn announcing(self: &Arc<Self>, cached: fn(u64) -> bool) -> Arc<dyn Volume> {
        Arc::new(self.slow(cached).announcing())
    }

    fn slow(self: &Arc<Self>, cached: fn(u64) -> bool) -> Slow<MemoryVolume> {
        let gated = Arc::clone(self);
        let is_cached = move |request: VolumeRequest| {
            request.operation == Operation::Read && cached(request.offset_bytes)
        };
        let slow = Slow::new(self.memory.clone(), move |request| {
            if !is_cached(request) {
                gated.pass(request);
            }
        });
        slow.except(is_cached)
    }

    fn pass(&self, request: VolumeRequest) {
        match request.operation {
            Operation::Read => {
                let large = request.len_bytes == u64::from(crate::REQUEST_BYTES_MAX);
                self.large_reads.fetch_add(u64::from(large), SeqCst);
                self.reads.fetch_add(1, SeqCst);
            }
            Operation::Write => drop(self.writes.fetch_add(1, SeqCst)),
            _ => {}
        }
        if !self.stops.contains(&request.operation) {
            return;
        }
        let mut gate = self.gate.lock();
        gate.waiting += 1;
        self.moved.notify_all();
        self.moved.wait_while(&mut gate, |gate| !gate.open);
        gate.waiting -= 1;
    }

    pub(crate) fn open(&self) {
        self.gate.lock().open = true;
        self.moved.notify_all();
    }

    /// Closes the gate again.
    pub(crate) fn close(&self) {
        self.gate.lock().open = false;
    }

    /// Returns how many requests wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.gate.lock().waiting
    }

    /// Returns when that many requests wait.
    pub(crate) fn wait_for(&self, waiting: usize) {
        let mut gate = self.gate.lock();
        let fewer = |gate: &mut Gate| gate.waiting < waiting;
        let waited = self.moved.wait_while_for(&mut gate, fewer, LIMIT);
        let found = gate.waiting;
        assert!(!waited.timed_out(), "only {found} requests are under way");
    }
}
