//! A few lanes that many writers share.
//!
//! Invariant: a lane has one user at a time; who wants all of them waits for those in use and keeps
//! everybody else out meanwhile. A writer that finds all in use waits for one, since storing is
//! computation; one that finds them kept by somebody who syncs does not. Called by direct writes.

use parking_lot::{Condvar, Mutex};
use std::ops::{Deref, DerefMut};
use store::Lane;

/// Writers that can store chunks at the same time.
const LANES: usize = 2;

/// See the module's head.
#[derive(Default)]
pub(super) struct Lanes {
    state: Mutex<State>,
    /// A lane came back, or all did.
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Lane>,
    in_use: usize,
    /// Somebody has all, or waits for it.
    kept: bool,
}

impl Lanes {
    /// A lane that nobody uses, which is empty-handed when it is a new one; `None` while somebody
    /// keeps all of them.
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

    /// All of them, when nobody else has any.
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

/// A lane while it is used; there is none yet when nobody has made it.
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

/// All lanes while somebody keeps them.
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
