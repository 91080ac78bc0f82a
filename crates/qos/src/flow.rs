//! Kinds of requests that share a device.

/// Who asks, and how. The order is that of importance: the first matter most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Flow {
    /// Clients of volumes, monotonic or random.
    ForegroundNonSequential = 0,
    /// Clients of volumes, sequential.
    ForegroundSequential = 1,
    /// Giving snapshots back.
    Restore = 2,
    /// Storing new ones.
    Backup = 3,
    /// Copying them to another pool.
    Replication = 4,
    /// Garbage collection.
    Collect = 5,
    /// Verification.
    Scrub = 6,
    /// Defragmentation.
    Defragment = 7,
}

/// A value for each flow.
pub(crate) type ByFlow<T> = [T; Flow::ALL.len()];

impl Flow {
    /// All flows, by importance.
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

    /// Whether it has time: it runs when the device is idle, and at its floor otherwise.
    pub const fn is_maintenance(self) -> bool {
        matches!(
            self,
            Self::Replication | Self::Collect | Self::Scrub | Self::Defragment
        )
    }

    /// The requests of a client.
    pub const fn of_client(is_sequential: bool) -> Self {
        if is_sequential {
            Self::ForegroundSequential
        } else {
            Self::ForegroundNonSequential
        }
    }
}
