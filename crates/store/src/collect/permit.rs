//! The permit to collect garbage: one run at a time for each pool.
//!
//! Invariant: everything that purges, deletes or retires takes the permit. Estimates need none.
//! Called by garbage collection.

use crate::pool::Pool;
use chunk_store::Result;
use std::sync::Arc;

/// See the module's head. The next run can begin when this and what was made with it is dropped.
#[derive(Clone)]
pub struct GcPermit {
    _token: Arc<()>,
}

impl Pool {
    /// The permit for one run. `Invalid` while another run has it, and for a pool that was opened
    /// for reading.
    pub fn gc_permit(&self) -> Result<GcPermit> {
        if !self.is_writable() {
            return Err(super::invalid("the pool was opened for reading"));
        }
        Ok(GcPermit {
            _token: self.collect_alone()?,
        })
    }
}
