//! Defines the media interfaces: the only access to storage, the clock and randomness.
//!
//! The store calls this; `local` and the simulator implement it. Storage has two interfaces:
//! [`Blobs`] (whole objects under a name: containers, roots, keys) and [`Disk`] (files that change
//! in place: index, later journal and SSD tier).
//! Invariant: no other crate opens a file of the pool, asks for the time or draws a random number.
//! Every wait for durability passes a named [`Barrier`].
#![deny(unsafe_code)]

mod barrier;
mod blobs;
mod clock;
mod dir_blobs;
mod disk;
mod disk_layer;
mod error;
mod io_origin;
mod local;
mod random;
mod reserve;

pub use barrier::Barrier;
pub use blobs::{Blobs, Put};
pub use clock::{Clock, FixedClock, SystemClock, SystemTicks, Ticks};
pub use dir_blobs::{DirBlobs, Syncing};
pub use disk::{Disk, DiskEntry, DiskFile, DiskLock, ReadFrom, Room, TimedRead};
pub use disk_layer::DiskLayer;
pub use error::{MediaError, MediaErrorKind};
pub use io_origin::{IoOrigin, IoOriginScope};
pub use local::LocalDisk;
pub use random::{Random, SeededRandom, SystemRandom};
pub use reserve::{Need, RESERVE_NAME, Reserve, Reserved};

use std::path::PathBuf;
use std::sync::Arc;
use units::UnixNanos;

/// Everything below the store, bundled. `store::Pool` is opened over it.
#[derive(Clone)]
pub struct Media {
    /// Containers, roots, keys, config.
    pub blobs: Arc<dyn Blobs>,
    /// Index and other rebuildable files.
    pub disk: Arc<dyn Disk>,
    /// Time of day.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub random: Arc<dyn Random>,
}

impl Media {
    /// Puts everything into one directory, with the system's clock and randomness.
    pub fn local(top: impl Into<PathBuf>, syncing: Syncing) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(top));
        Self {
            blobs: Arc::new(DirBlobs::new(Arc::clone(&disk), syncing)),
            disk,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }

    /// Puts everything on one disk, with a clock that begins at `now` and random numbers from a
    /// seed. For simulations, tests and measurements that must not depend on the machine.
    pub fn seeded(disk: Arc<dyn Disk>, now: UnixNanos, seed: u64) -> Self {
        Self {
            blobs: Arc::new(DirBlobs::new(Arc::clone(&disk), Syncing::Inline)),
            disk,
            clock: Arc::new(FixedClock::new(now)),
            random: Arc::new(SeededRandom::new(seed)),
        }
    }
}
