//! Lists the objects that can be defragmented, with the object numbers of open volumes.
//!
//! Maintenance calls this.
//! Invariant: the numbers belong to volumes that are open now.

use super::Volumes;
use store::{Fragmentable, Result, trace_key};

impl Volumes {
    /// Like [`Pool::fragmentables`](store::Pool::fragmentables), with the object numbers that open
    /// volumes have in the page cache.
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
