//! Sessions for page events. The tasks that take first what is in memory register with this.
//!
//! Invariant: a task without events does the same work in its own order.

use duet::{Duet, Mask, Scope, Session, Space};
use std::sync::Arc;
use store::{Result, StoreError, StoreErrorKind};

/// Begins to listen to what comes into memory. `part_bits`: of the task's units.
pub fn listen(duet: &Arc<Duet>, space: Space, scope: Scope, part_bits: u32) -> Result<Session> {
    let session = duet.register(space, scope, Mask::EXISTS, part_bits);
    session.map_err(|e| StoreError::new(StoreErrorKind::Invalid, e.to_string()))
}

/// Returns a session that gets no events.
pub fn silent(space: Space, part_bits: u32) -> Result<Session> {
    listen(&Duet::silent(), space, Scope::Everything, part_bits)
}
