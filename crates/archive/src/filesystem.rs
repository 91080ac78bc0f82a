//! Access to source and target file systems: captures a tree, and applies it again. Backup and
//! restore call this.
//!
//! Invariant: symbolic links are never followed below a top directory. A failure names its path and
//! stops only that file.

pub mod apply;
pub mod cached_first;
pub mod capture;
mod captured;
pub mod data_map;
pub mod in_memory;
mod listing;
pub mod metadata;
pub mod open_file;
pub mod overwrite;
pub mod paced;
pub mod target_file;
pub(crate) mod through_link;
pub mod xattrs;

pub use units::PathError;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns `directory/name` as bytes.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + name.len() + 2);
    path.extend_from_slice(directory);
    if !directory.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
