//! What can be defragmented, with what open volumes know of it.
//!
//! Invariant: the numbers are of volumes that are open now. Called by maintenance.

use super::Volumes;
use store::{Fragmentable, Result, trace_key};

impl Volumes {
    /// As [`Pool::fragmentables`](store::Pool::fragmentables), with the numbers that the page cache has for
    /// open volumes.
    pub fn fragmentables(&self) -> Result<Vec<Fragmentable>> {
        let mut all = self.pool().fragmentables()?;
        let open = self.cache_numbers();
        for one in all.iter_mut().filter(|one| one.is_volume) {
            let found = open.iter().find(|(id, _)| trace_key(&id.0) == one.key);
            one.cached_as = found.map(|(_, number)| *number);
        }
        Ok(all)
    }
}
