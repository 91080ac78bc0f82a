//! Traits through which garbage collection asks open volumes, which are in a higher layer.
//! `volumes` implements [`OpenVolumes`], [`Mark`](super::Mark) calls it.
//!
//! Invariant: declarations only.

use crate::pool::Pool;
use chunk_store::Result;
use format::recipe::ObjectRoot;
use units::Fingerprint;

/// The open volumes of a pool.
pub trait OpenVolumes {
    /// Returns the pool below.
    fn pool(&self) -> &Pool;

    /// Reports everything that volumes refer to and that no root names yet. A chunk that was stored
    /// or found for a volume before the call is reported, unless a commit or a later write has
    /// replaced it; that commit or write is then durable when the call returns. So a chunk that is
    /// neither reported nor reached by a root is not needed, after a crash either.
    fn visit_unapplied(&self, needed: &mut dyn Needed) -> Result<()>;
}

/// Receives what is needed.
pub trait Needed {
    /// A whole object.
    fn object(&mut self, root: &ObjectRoot);
    /// One chunk.
    fn chunk(&mut self, fingerprint: Fingerprint);
}
