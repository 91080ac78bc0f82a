//! The permit to collect garbage: one run at a time for each pool. Garbage collection takes it.
//!
//! Invariant: purging, deleting and retiring require the permit. Estimates do not.

use crate::pool::Pool;
use chunk_store::Result;
use std::sync::Arc;

/// See the module's head. The next run can begin when this and everything made with it is dropped.
#[derive(Clone)]
pub struct GcPermit {
    _token: Arc<()>,
}

impl Pool {
    /// Returns the permit for one run. Fails with `Invalid` while another run has it, and for a
    /// pool that was opened for reading.
    pub fn gc_permit(&self) -> Result<GcPermit> {
        self.check_writable()?;
        Ok(GcPermit {
            _token: self.collect_alone()?,
        })
    }
}
