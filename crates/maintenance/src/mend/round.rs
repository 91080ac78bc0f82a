//! One round of a repair: both pools, one session, and what is known so far.
//!
//! Invariant: what fails at the replica is told once and ends nothing. Called by the walk, and by who
//! brings parts back.

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
    /// Nodes without damage, with all below them.
    pub whole: HashSet<Fingerprint>,
    /// Directories without damage, with all below them.
    pub whole_trees: HashSet<ObjectRoot>,
    /// Something came back that has more below it.
    pub found_more: bool,
    /// Look-ups since it was asked last whether to go on.
    pub looked_up: u32,
    pub go_on: &'a mut GoOn<'a>,
}

/// Look-ups between two questions whether to go on.
const LOOK_UPS_MAX: u32 = 256;

impl Round<'_> {
    pub fn check(&mut self) -> Result<()> {
        self.looked_up = 0;
        match (self.go_on)(&self.counts).is_break() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// True when the pool, or this session, has what is called so.
    pub fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool> {
        self.looked_up += 1;
        if self.looked_up >= LOOK_UPS_MAX {
            self.check()?;
        }
        self.session.main().holds(fingerprint)
    }

    /// What the replica gave; that it did not is told, and the walk goes on.
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
