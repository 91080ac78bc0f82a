//! [`SimDisk`]: `media::Disk` in memory, with a log of everything that was done.
//!
//! Invariant: reads show the volatile state, as the page cache of a running machine does; what
//! would survive a power loss is decided later, from the log (`pending`, `crash`). One lock orders
//! all operations and is never held across a call to somebody else. Called by the store's and the
//! conformance tests through `media::Disk`, and by the explorer.
//!
//! A `SimDisk` is the disk as one *process* sees it: [`SimDisk::kill`] ends that process, so that
//! whatever it still does (a destructor that flushes, say) fails and changes nothing, and returns
//! the same disk for the next process.

use crate::fault::{Counts, Fault};
use crate::image::Image;
use crate::record::{Op, Recording};
use crate::state::State;
use media::{Barrier, Room};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// A disk in memory. See the module's head.
pub struct SimDisk {
    pub(crate) shared: Arc<Mutex<State>>,
    pub(crate) process: u64,
}

impl SimDisk {
    /// An empty disk that records.
    pub fn new() -> Arc<Self> {
        Self::on(Image::new())
    }

    /// A disk that holds `image`, all of it durable, and records what follows.
    pub fn on(image: Image) -> Arc<Self> {
        Self::with(image, true)
    }

    /// The same without a record: cheaper, for states that are only looked at.
    pub fn unrecorded(image: Image) -> Arc<Self> {
        Self::with(image, false)
    }

    fn with(image: Image, recording: bool) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Mutex::new(State::new(image, recording))),
            process: 0,
        })
    }

    /// From now on syncs at `point` say Ok and do nothing: a mutant for canaries.
    pub fn without(self: Arc<Self>, point: Barrier) -> Arc<Self> {
        self.state().without.insert(point);
        self
    }

    /// From now on it says that it has so much room; nothing else depends on that.
    pub fn set_room(&self, room: Option<Room>) {
        self.state().room = room;
    }

    /// From now on its files have room for so many bytes together, and it says so; a write that
    /// needs more leaves what fits and fails with `NoSpace`. A file that has lost its name takes
    /// none.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Adds an error to come.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Forgets the errors to come. What they did to the disk stays.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// What was asked so far, refused operations included.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Number of operations recorded so far: a place in the log.
    pub fn position(&self) -> usize {
        self.state().log.len()
    }

    /// What was recorded so far.
    pub fn recording(&self) -> Recording {
        let state = self.state();
        Recording {
            base: state.base.clone(),
            log: Arc::clone(&state.log),
        }
    }

    /// What a running process sees now.
    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Forgets the record: what the disk shows now counts as durable.
    pub fn settle(&self) {
        let mut state = self.state();
        state.base = state.image.clone();
        state.log = Arc::default();
    }

    /// The process dies and another one starts: locks are released, nothing is lost.
    pub fn kill(&self) -> Arc<Self> {
        let mut state = self.state();
        state.die();
        state.record("", || Op::Kill);
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            process: state.process,
        })
    }

    /// The process will die after so many (at least one) operations that change or sync
    /// something; whatever it does then fails. [`SimDisk::kill`] starts the next one.
    pub fn kill_after(&self, operations: u64) {
        self.state().dies_after = Some(operations.max(1));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}
