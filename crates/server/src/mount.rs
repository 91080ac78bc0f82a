//! The pool as a file system: every snapshot as a read-only tree, every volume as a file.
//!
//! Invariant: what is in a snapshot never changes, so the kernel may keep it for as long as it likes;
//! which snapshots and volumes there are is looked up each time. Damage is an I/O error of the file or directory it hits, and is
//! told once. The command `mount` calls [`PoolFiles`].

mod appearance;
mod directories;
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

pub use directories::Directories;
pub use disks::{Disks, Which};
pub use error::MountingError;
pub use mounted::{Mount, MountSettings, Pools};
pub use pool_files::{PoolFiles, Source};
pub use snapshot_list::SnapshotList;

#[cfg(test)]
mod tests;
