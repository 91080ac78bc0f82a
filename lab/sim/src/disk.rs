//! [`SimDisk`]: `media::Disk` in memory, with a log of all operations. The store's tests and the
//! conformance tests call it through `media::Disk`; the explorer calls it directly.
//!
//! Invariant: reads show the volatile state, as the page cache of a running machine does. The
//! states after a power loss are derived later from the log (`pending`, `crash`). One lock orders
//! all operations and is never held across a callback.
//!
//! A `SimDisk` is the disk as one *process* sees it. [`SimDisk::kill`] ends that process, so that
//! its further operations (of a destructor that flushes, for example) fail and change nothing. It
//! returns the same disk for the next process.

use crate::fault::{Fault, OperationCounts};
use crate::image::Image;
use crate::record::{Op, Recording};
use crate::state::DiskState;
use media::{Barrier, Room};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// A disk in memory. See the module's head.
pub struct SimDisk {
    pub(crate) shared: Arc<Mutex<DiskState>>,
    pub(crate) process: u64,
}

impl SimDisk {
    /// Creates an empty disk that records.
    pub fn new() -> Arc<Self> {
        Self::on(Image::new())
    }

    /// Creates a disk with `image`, all of it durable, that records what follows.
    pub fn on(image: Image) -> Arc<Self> {
        Self::with(image, true)
    }

    /// The same without a record: cheaper, for states that are only read.
    pub fn unrecorded(image: Image) -> Arc<Self> {
        Self::with(image, false)
    }

    fn with(image: Image, recording: bool) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Mutex::new(DiskState::new(image, recording))),
            process: 0,
        })
    }

    /// From now on, syncs at `point` return Ok and do nothing: a mutant for canaries.
    pub fn without(self: Arc<Self>, point: Barrier) -> Arc<Self> {
        self.state().without.insert(point);
        self
    }

    /// From now on, it reports this free space; nothing else depends on it.
    pub fn set_room(&self, room: Option<Room>) {
        self.state().room = room;
    }

    /// From now on, its files may have this many bytes together, and it reports the free space. A
    /// write that needs more keeps the part that fits and fails with `NoSpace`. Files without a
    /// name do not count.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Adds a future fault.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Removes the future faults. Their past effects stay.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Counts of all requests so far, including refused ones.
    pub fn counts(&self) -> OperationCounts {
        self.state().counts
    }

    /// Number of recorded operations: a position in the log.
    pub fn position(&self) -> usize {
        self.state().log.len()
    }

    /// Returns the record so far.
    pub fn recording(&self) -> Recording {
        let state = self.state();
        Recording {
            base: state.base.clone(),
            log: Arc::clone(&state.log),
        }
    }

    /// Returns the state that a running process sees.
    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Clears the record: the present state counts as durable.
    pub fn settle(&self) {
        let mut state = self.state();
        state.base = state.image.clone();
        state.log = Arc::default();
    }

    /// Ends the process and starts another one: locks are released, nothing is lost.
    pub fn kill(&self) -> Arc<Self> {
        let mut state = self.state();
        state.die();
        state.record("", || Op::Kill);
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            process: state.process,
        })
    }

    /// The process will die after this many (at least one) operations that change or sync
    /// something; its further operations fail. [`SimDisk::kill`] starts the next one.
    pub fn kill_after(&self, operations: u64) {
        self.state().dies_after = Some(operations.max(1));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.shared.lock()
    }
}
