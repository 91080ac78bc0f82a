//! The state of the thread that steps the tier. `step` and `scan` use it.
//!
//! Invariant: one thread has it at a time, and without a lock while it does I/O.

use crate::budget::WriteBudget;
use crate::keys::Use;
use crate::victims::Occupancy;
use media::DiskLock;
use std::sync::Arc;
use units::UnixNanos;

/// Number of earlier uses whose blocks are read. A tier that is opened more often while its blocks
/// stay forgets the others.
const USES_MAX: usize = 1024;

/// Work of the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Closed,
    /// Reads the directories of the slots from this one on.
    Scanning(u32),
    Ready,
}

/// See the module's head.
pub(crate) struct Writer {
    pub phase: Phase,
    pub occupancy: Occupancy,
    pub budget: WriteBudget,
    /// Writes nothing beyond: the file cannot grow. Until that time.
    pub limit: Option<(u32, UnixNanos)>,
    /// This use of the tier, and the sequence number of its next block.
    pub by: Option<Arc<Use>>,
    pub sequence: u64,
    uses: Vec<Arc<Use>>,
    /// Holds the device against other processes.
    pub lock: Option<DiskLock>,
}

impl Writer {
    pub fn new(budget: WriteBudget) -> Self {
        Self {
            phase: Phase::Closed,
            occupancy: Occupancy::default(),
            budget,
            limit: None,
            by: None,
            sequence: 0,
            uses: Vec::new(),
            lock: None,
        }
    }

    /// Forgets what was on the device, and begins a use with this key.
    pub fn begin(&mut self, by: Arc<Use>) {
        self.occupancy = Occupancy::default();
        self.limit = None;
        self.sequence = 0;
        self.uses = vec![Arc::clone(&by)];
        self.by = Some(by);
        self.phase = Phase::Scanning(0);
    }

    /// Returns the first slot that cannot be written now.
    pub fn slots_limit(&self, now: UnixNanos) -> u32 {
        let limit = self.limit.filter(|(_, until)| now < *until);
        limit.map_or(u32::MAX, |(slot, _)| slot)
    }

    /// Returns the use with this salt; `make` makes it at its first block.
    pub fn use_of(&mut self, salt: &[u8; 32], make: impl FnOnce() -> Use) -> Option<Arc<Use>> {
        if let Some(found) = self.uses.iter().find(|by| by.salt == *salt) {
            return Some(Arc::clone(found));
        }
        if self.uses.len() >= USES_MAX {
            return None;
        }
        let made = Arc::new(make());
        self.uses.push(Arc::clone(&made));
        Some(made)
    }
}
