//! Kinds of requests that share a device. Callers of the scheduler name one with each request.
//!
//! Invariant: the order of the variants is the order of importance, and each number is stable:
//! [`crate::lease`] sends it.

/// I/O origin of a request, and for clients its access pattern. The most important comes first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Flow {
    /// Random or monotonic requests of volume clients.
    ForegroundNonSequential = 0,
    /// Sequential requests of volume clients.
    ForegroundSequential = 1,
    /// Restores: reading snapshots for users.
    Restore = 2,
    /// Storing snapshots.
    Backup = 3,
    /// Copying snapshots to another pool.
    Replication = 4,
    /// Garbage collection.
    Collect = 5,
    /// Scrub: reading and verifying what is stored.
    Scrub = 6,
    /// Defragmentation.
    Defragment = 7,
}

/// One value for each flow.
pub(crate) type ByFlow<T> = [T; Flow::ALL.len()];

impl Flow {
    /// All flows, the most important first.
    pub const ALL: [Self; 8] = [
        Self::ForegroundNonSequential,
        Self::ForegroundSequential,
        Self::Restore,
        Self::Backup,
        Self::Replication,
        Self::Collect,
        Self::Scrub,
        Self::Defragment,
    ];

    /// Returns true for flows that can wait: they run when the device is idle, otherwise within
    /// their I/O floor.
    pub const fn is_maintenance(self) -> bool {
        matches!(
            self,
            Self::Replication | Self::Collect | Self::Scrub | Self::Defragment
        )
    }

    /// Returns the flow of a client's request.
    pub const fn of_client(is_sequential: bool) -> Self {
        if is_sequential {
            Self::ForegroundSequential
        } else {
            Self::ForegroundNonSequential
        }
    }
}
