//! A few lanes that many writers share.
//!
//! Direct writes call this.
//! Invariant: a lane has one user at a time. A thread that takes all lanes waits for those in use
//! and keeps other threads out. A writer that finds all lanes in use waits for one, because storing
//! is computation. It does not wait for a thread that keeps them all, because that one syncs.

use parking_lot::{Condvar, Mutex};
use std::ops::{Deref, DerefMut};
use store::Lane;

/// Maximum number of writers that store chunks at the same time.
pub(super) const LANES: usize = 2;

/// The lanes. See the module's head.
#[derive(Default)]
pub(super) struct Lanes {
    state: Mutex<LanePool>,
    /// Signalled when a lane is returned, or all are.
    returned: Condvar,
}

#[derive(Default)]
struct LanePool {
    idle: Vec<Lane>,
    in_use: usize,
    /// A thread has all lanes, or waits for them.
    kept: bool,
}

impl Lanes {
    /// Takes a free lane, or a place for a new one. Waits while all are in use. Returns `None`
    /// while a thread keeps all lanes.
    pub(super) fn one(&self) -> Option<OneLane<'_>> {
        let mut state = self.state.lock();
        loop {
            if state.kept {
                return None;
            }
            let lane = state.idle.pop();
            if lane.is_some() || state.in_use < LANES {
                state.in_use += 1;
                return Some(OneLane { home: self, lane });
            }
            self.returned.wait(&mut state);
        }
    }

    /// Takes all lanes. Waits for those in use.
    pub(super) fn all(&self) -> AllLanes<'_> {
        let mut state = self.state.lock();
        while state.kept {
            self.returned.wait(&mut state);
        }
        state.kept = true;
        while state.in_use > 0 {
            self.returned.wait(&mut state);
        }
        let lanes = std::mem::take(&mut state.idle);
        AllLanes { home: self, lanes }
    }
}

/// A lane in use; `None` until its user creates it.
pub(super) struct OneLane<'a> {
    home: &'a Lanes,
    pub(super) lane: Option<Lane>,
}

impl Drop for OneLane<'_> {
    fn drop(&mut self) {
        let mut state = self.home.state.lock();
        state.idle.extend(self.lane.take());
        state.in_use -= 1;
        drop(state);
        self.home.returned.notify_all();
    }
}

/// All lanes in use by one thread.
pub(super) struct AllLanes<'a> {
    home: &'a Lanes,
    lanes: Vec<Lane>,
}

impl Deref for AllLanes<'_> {
    type Target = Vec<Lane>;

    fn deref(&self) -> &Self::Target {
        &self.lanes
    }
}

impl DerefMut for AllLanes<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.lanes
    }
}

impl Drop for AllLanes<'_> {
    fn drop(&mut self) {
        let mut state = self.home.state.lock();
        state.idle = std::mem::take(&mut self.lanes);
        state.kept = false;
        drop(state);
        self.home.returned.notify_all();
    }
}
