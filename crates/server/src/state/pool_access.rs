//! How commands get the pool of a server: for reading with a hold, for writing with the writer lock
//! too.
//!
//! Invariant: commands that write to a served pool take the writer lock in the order of their
//! arrival, so each sees the snapshots that it changes. A hold begins before a command reads any
//! name: gc then keeps what the names reach.

use super::writer_lock::{Asking, NotTaken, WriterGuard, WriterLock};
use std::ops::Deref;
use std::sync::Arc;
use store::{Hold, Pool};

/// Gives commands the pool. See the module's head.
pub struct PoolAccess {
    pool: Arc<Pool>,
    writer_lock: Arc<WriterLock>,
}

impl PoolAccess {
    /// Gives out `pool`.
    pub(super) fn new(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            writer_lock: Arc::default(),
        }
    }

    /// Returns the pool for reading.
    pub fn for_reading(&self) -> OpenPool {
        OpenPool {
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _guard: None,
        }
    }

    /// Waits for the writer lock and returns the pool. Calls `waiting` with the name of the writer
    /// that has the lock, if one does.
    pub fn for_writing(
        &self,
        asking: &Asking<'_>,
        waiting: impl FnOnce(&str),
    ) -> Result<OpenPool, NotTaken> {
        let guard = WriterLock::take(&self.writer_lock, asking, waiting)?;
        // Readers in other processes may have recorded damage.
        self.pool.health().take_up_news();
        Ok(OpenPool {
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _guard: Some(guard),
        })
    }
}

/// An open pool with a hold and, for writers, the writer lock.
pub struct OpenPool {
    pool: Arc<Pool>,
    /// Keeps containers from deletion while the command refers to what its names reach.
    _hold: Option<Hold>,
    /// Fields drop in order: the writer lock is released after the hold.
    _guard: Option<WriterGuard>,
}

impl From<Pool> for OpenPool {
    fn from(pool: Pool) -> Self {
        Self {
            pool: Arc::new(pool),
            // A pool that this process opened has its own hold, or the pool's lock.
            _hold: None,
            _guard: None,
        }
    }
}

impl Deref for OpenPool {
    type Target = Arc<Pool>;

    fn deref(&self) -> &Arc<Pool> {
        &self.pool
    }
}
