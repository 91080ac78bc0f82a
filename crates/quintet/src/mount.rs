//! The pool as a file system: every snapshot as a read-only tree, every volume as a file.
//!
//! Invariant: what is shown of a snapshot never changes while it is mounted, so the kernel may
//! keep it for as long as it likes. Damage is an I/O error of the file or directory it hits, and is
//! told once. The command `mount` calls [`PoolFiles`].

mod appearance;
mod directories;
mod items;
mod lines;
mod open_files;
mod places;
mod pool_files;
mod snapshot_files;
mod views;

pub use pool_files::PoolFiles;
pub use snapshot_files::{Source, Tell};

#[cfg(test)]
mod tests;
