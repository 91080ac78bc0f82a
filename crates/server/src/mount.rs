//! The pool as a file system: every snapshot as a read-only tree, every volume and image as a file.
//! The commands `mount` and `serve` call [`Mount`].
//!
//! Invariant: contents of snapshots never change, so the kernel may cache them without limit. The
//! lists of snapshots and volumes are read for every look-up. Damage is an I/O error of the
//! affected file or directory and is reported once.
//!
//! ```text
//! fuse::Session --> PoolFiles --+-- SnapshotFiles: Items --> Views (by time, id, host, tag)
//!                               |                       --> Directories (stored directories)
//!                               +-- fuse::VolumeFiles --> Disks (volumes, images)
//! ```

mod appearance;
mod disks;
mod error;
mod items;
mod lines;
mod mounted;
mod open_files;
mod place;
mod places;
mod pool_files;
mod snapshot_files;
mod snapshot_list;
mod views;

pub use disks::{Disks, Which};
pub use error::MountingError;
pub use mounted::{Mount, MountSettings, Pools};
pub use pool_files::{FilesSource, PoolFiles};
pub use snapshot_list::SnapshotList;

#[cfg(test)]
mod tests;
