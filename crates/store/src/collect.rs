//! Primitives of garbage collection (physical garbage collection, FAST'17; decision 20). Each does
//! a bounded amount of work and returns what it did. The caller in `maintenance` decides what to
//! collect, in which order, and when to stop.
//!
//! ```text
//! purge -> mark -> delete from the trash -> choose -> retire -> copy -> trash
//! ```
//!
//! - [`Pool::purge`](crate::Pool::purge): removes expired snapshots from the catalog.
//! - [`Mark`]: finds what is live.
//! - [`Deletion`]: deletes containers from the trash.
//! - [`Mark::visit_containers`]: reports how much of each container is live.
//! - [`Owners`]: finds who refers to the chunks that will be copied.
//! - [`Retired`], [`CopyRound`]: copy live chunks out of containers and trash these.
//!
//! Invariant: a container is deleted only if no hold is older than the commit that trashed it
//! (`pool::holds`), and if a mark that began after that commit found nothing live in it. Copies are
//! durable before their old container is in the trash. Callers cannot break this by calling the
//! primitives in another order.

mod cached;
mod containers;
mod copy;
mod delete;
mod expiry;
mod held;
mod lanes;
mod mark;
mod opener;
mod owners;
mod permit;
mod purge;
mod region;
mod retire;
mod segment;
mod source;
mod unapplied;

pub use cached::{CachedChunks, NothingCached};
pub use containers::{ContainerUsage, MarkedContainer};
pub use copy::{CopyRound, RoundResult};
pub use delete::{Deletable, Deletion};
pub use expiry::{Expiry, SnapshotExpiry};
pub use held::HeldCounts;
pub use mark::{Mark, MarkSummary};
pub use owners::Owners;
pub use permit::GcPermit;
pub use purge::Purged;
pub use retire::Retired;
pub use source::CopyCounts;
pub use unapplied::{Needed, OpenVolumes};

use chunk_store::{StoreError, StoreErrorKind};

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStep {
    /// There is more to do.
    Working,
    /// The work is complete.
    Done,
}

fn invalid(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests;
