//! Copies to other pools that a server runs for its clients: their progress, and the pause switch.
//! `copy`, `status` and the metrics call this.
//!
//! Invariant: an entry exists as long as its command runs. The bytes that it read stay in the
//! totals.

use maintenance::{TaskBytes, WorkLeft};
use parking_lot::Mutex;
use replication::CopyCounts;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::UnixNanos;

/// Progress of a copy.
#[derive(Clone, Debug, Default)]
pub struct CopyState {
    /// Directory of the receiving pool.
    pub to: String,
    /// When its command began.
    pub began: UnixNanos,
    /// Snapshot that is being copied.
    pub snapshot: String,
    /// Size of all requested snapshots, bytes.
    pub total_bytes: u64,
    /// Bytes of them that were processed.
    pub done_bytes: u64,
    /// Bytes read, by where they were found.
    pub counts: CopyCounts,
    /// Bytes that the receiving pool did not have.
    pub sent_bytes: u64,
    /// The copy waits for `copy --resume`.
    pub is_paused: bool,
}

/// All copies in progress. See the module's head.
#[derive(Default)]
pub struct Copies(Mutex<Running>);

#[derive(Default)]
struct Running {
    next: u64,
    states: BTreeMap<u64, CopyState>,
    totals: TaskBytes,
}

/// Entry of a copy in progress. Dropping it removes the entry.
pub struct CopyEntry {
    copies: Arc<Copies>,
    number: u64,
}

impl Copies {
    /// Adds an entry.
    pub fn begin(self: &Arc<Self>, state: CopyState) -> CopyEntry {
        let mut running = self.0.lock();
        let number = running.next;
        running.next += 1;
        running.states.insert(number, state);
        CopyEntry {
            copies: Arc::clone(self),
            number,
        }
    }

    /// Returns the copies in progress, oldest first.
    pub fn states(&self) -> Vec<CopyState> {
        self.0.lock().states.values().cloned().collect()
    }

    /// Returns the bytes that all copies have read since the server began.
    pub fn totals(&self) -> TaskBytes {
        self.0.lock().totals
    }

    /// Returns what all copies have left that are not paused. `None` if there are none.
    pub fn left(&self) -> Option<WorkLeft> {
        let running = self.0.lock();
        let copies = running.states.values().filter(|copy| !copy.is_paused);
        let left = copies.map(|copy| WorkLeft {
            began: copy.began,
            bytes: copy.total_bytes.saturating_sub(copy.done_bytes),
        });
        left.reduce(|sum, copy| WorkLeft {
            began: sum.began.min(copy.began),
            bytes: sum.bytes.saturating_add(copy.bytes),
        })
    }

    /// Pauses or resumes all copies in progress. Returns their number.
    pub fn pause(&self, is_paused: bool) -> usize {
        let mut running = self.0.lock();
        for state in running.states.values_mut() {
            state.is_paused = is_paused;
        }
        running.states.len()
    }
}

impl CopyEntry {
    /// Updates the entry. Returns true if the copy is paused.
    pub fn update(&self, tell: impl FnOnce(&mut CopyState)) -> bool {
        let mut running = self.copies.0.lock();
        let Some(state) = running.states.get_mut(&self.number) else {
            return false;
        };
        let before = found(state);
        tell(state);
        let (now, is_paused) = (found(state), state.is_paused);
        running.totals = running.totals.plus(now.since(before));
        is_paused
    }
}

fn found(state: &CopyState) -> TaskBytes {
    TaskBytes {
        disk: state.counts.read_bytes,
        cache: state.counts.cached_bytes,
    }
}

impl Drop for CopyEntry {
    fn drop(&mut self) {
        self.copies.0.lock().states.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_live_as_long_as_their_commands() {
        let copies = Arc::new(Copies::default());
        let entry = |to: &str| {
            copies.begin(CopyState {
                to: to.to_owned(),
                ..CopyState::default()
            })
        };
        let (a, b) = (entry("a"), entry("b"));
        assert_eq!(copies.pause(true), 2);
        assert!(a.update(|state| {
            state.done_bytes = 7;
            state.counts.read_bytes = 5;
        }));
        b.update(|state| state.counts.cached_bytes = 3);
        drop(b);
        assert_eq!(copies.pause(false), 1);
        assert!(!a.update(|_| ()));
        let states = copies.states();
        assert_eq!((states.len(), states[0].done_bytes), (1, 7));
        a.update(|state| state.counts.read_bytes = 6);
        drop(a);
        assert!(copies.states().is_empty());
        assert_eq!(copies.totals(), TaskBytes { disk: 6, cache: 3 });
    }
}
