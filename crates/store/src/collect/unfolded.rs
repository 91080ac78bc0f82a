//! What the collector asks open volumes, which stand above this room.
//!
//! Invariant: nothing here but words. Implemented by `volumes`, called by [`Mark`](super::Mark).

use crate::pool::Pool;
use chunk_store::Result;
use format::recipe::ObjectRoot;
use units::Fingerprint;

/// The open volumes of a pool.
pub trait OpenVolumes {
    /// The pool below.
    fn pool(&self) -> &Pool;

    /// Tells what volumes refer to and no root says yet. A chunk that was stored or found for a volume
    /// before the call is told, unless a commit or a later write has made it needless; and then that
    /// commit or write is durable when the call returns. So what is not told, and no root reaches,
    /// nobody needs, after a crash either.
    fn visit_unfolded(&self, needed: &mut dyn Needed) -> Result<()>;
}

/// Told what is needed.
pub trait Needed {
    /// A whole object.
    fn object(&mut self, root: &ObjectRoot);
    /// One chunk.
    fn chunk(&mut self, fingerprint: Fingerprint);
}
