//! Primitives of garbage collection (physical garbage collection, FAST'17; decision 20). Each does a
//! bounded amount of work and says what it did; who calls them decides what to collect, in which
//! order, and when to stop. A run is in `maintenance`.
//!
//! - [`Pool::purge`](crate::Pool::purge): expired snapshots leave the catalog.
//! - [`Mark`]: finds what is live.
//! - [`Deletion`]: deletes containers from the trash.
//! - [`Mark::visit_containers`]: how much of each container is live.
//! - [`Retired`], [`CopyRound`]: copy what is live out of containers, and trash those.
//!
//! Invariant: a container is deleted only when it came into the trash by a commit that nobody began
//! before (`pool::holds`), and a mark that began after that found nothing live in it. What is copied
//! is durable before its old container is in the trash. No caller can break this by calling the
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
mod permit;
mod purge;
mod region;
mod retire;
mod unfolded;

pub use cached::{CachedChunks, NothingCached};
pub use containers::{ContainerUsage, MarkedContainer};
pub use copy::{CopyCounts, CopyRound, RoundResult};
pub use delete::{Deletable, Deletion};
pub use expiry::{Expiry, SnapshotExpiry};
pub use held::HeldCounts;
pub use mark::{Mark, MarkSummary};
pub use permit::GcPermit;
pub use purge::Purged;
pub use retire::Retired;
pub use unfolded::{Needed, OpenVolumes};

use chunk_store::{StoreError, StoreErrorKind};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStep {
    /// There is more to do.
    Working,
    /// It is over.
    Done,
}

fn invalid(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests;
