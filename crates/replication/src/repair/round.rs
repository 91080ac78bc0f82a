//! One round of a repair: both pools, one session, and the state so far. The walk and the repair
//! use it.
//!
//! Invariant: an error of the replica is recorded once and ends nothing.

use super::{GoOn, ReplicaCounts, interrupted};
use format::recipe::ObjectRoot;
use std::collections::HashSet;
use std::sync::Arc;
use store::{Pool, Reader, Result, WriteSession};
use units::Fingerprint;

/// See the module's head.
pub(super) struct Round<'a> {
    pub pool: &'a Pool,
    pub replica: &'a Arc<Reader>,
    pub is_one_domain: bool,
    pub session: WriteSession,
    pub counts: ReplicaCounts,
    /// Nodes without damage in them or below.
    pub whole: HashSet<Fingerprint>,
    /// Directories without damage in them or below.
    pub whole_trees: HashSet<ObjectRoot>,
    /// A repaired part has more below it.
    pub found_more: bool,
    /// Look-ups since the last call of `go_on`.
    pub looked_up: u32,
    pub go_on: &'a mut GoOn<'a>,
}

/// Maximum number of look-ups between two calls of `go_on`.
const LOOK_UPS_MAX: u32 = 256;

impl Round<'_> {
    pub fn check(&mut self) -> Result<()> {
        self.looked_up = 0;
        match (self.go_on)(&self.counts).is_break() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Returns true if the pool, or this session, has the chunk.
    pub fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        self.looked_up += 1;
        if self.looked_up >= LOOK_UPS_MAX {
            self.check()?;
        }
        self.session.main().holds(fingerprint)
    }

    /// Returns what the replica gave. Records its error, so that the walk continues.
    pub fn given<T>(&mut self, read: Result<T>) -> Option<T> {
        match read {
            Ok(given) => Some(given),
            Err(e) => {
                self.counts.trouble.get_or_insert_with(|| e.to_string());
                None
            }
        }
    }
}
