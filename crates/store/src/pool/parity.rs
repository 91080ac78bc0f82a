//! The parity of new containers. The program sets it; [`super::Health`] restores by it.
//!
//! Invariant: existing containers keep theirs.

use super::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::catalog::parity_edit;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::parity::PARITY_PERCENT_MAX;
use std::sync::atomic::Ordering;

impl Pool {
    /// Returns the parity of new containers, percent of their data; 0: none.
    pub fn parity(&self) -> u8 {
        self.commits.parity_percent.load(Ordering::Relaxed)
    }

    /// Sets the parity of new containers, durable on return. Existing containers stay as they are.
    pub fn set_parity(&self, percent: u8) -> Result<()> {
        if percent > PARITY_PERCENT_MAX {
            let why = format!("parity is at most {PARITY_PERCENT_MAX} percent");
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let session = self.begin(LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            session.commit(base, vec![parity_edit(percent)], 0)
        })?;
        self.commits
            .parity_percent
            .store(percent, Ordering::Relaxed);
        Ok(())
    }
}
