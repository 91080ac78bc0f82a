//! A directory on the path that the walker of a backup is on.
//!
//! Invariant: with snapshots of the source, everything is read from the snapshot. The directory
//! outside only says where other file systems and subvolumes begin.

use super::assemble::Pending;
use crate::filesystem::PathError;
use crate::filesystem::capture::{Captured, Directory};
use format::tree::{Entry, EntryKind};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Entries of a directory in the parent snapshot, by name.
pub(super) type OldEntries = std::iter::Peekable<std::vec::IntoIter<Entry>>;

/// A directory on the walked path.
pub(super) struct Level {
    pub directory: Arc<Directory>,
    /// If that is in a snapshot: the directory outside.
    pub live: Option<Directory>,
    /// Its own device number. `device` is the top's.
    pub own_device: u64,
    pub names: std::vec::IntoIter<CString>,
    pub pending: Arc<Pending>,
    pub old: OldEntries,
    pub device: u64,
}

/// A directory as it is read.
pub(super) struct View {
    pub directory: Directory,
    pub live: Option<Directory>,
    pub device: u64,
}

impl Level {
    /// The directory outside of the snapshot.
    pub fn outside(&self) -> &Directory {
        self.live.as_ref().unwrap_or(&self.directory)
    }

    /// Returns the metadata of an entry, and true if it is the top of another file system or
    /// subvolume. A snapshot has an empty directory in its place.
    pub fn stat(&self, name: &CStr) -> Result<(Captured, bool), PathError> {
        let captured = self.directory.stat(name)?;
        if !matches!(captured.entry.kind, EntryKind::Directory { .. }) {
            return Ok((captured, false));
        }
        let outside = self.live.as_ref().and_then(|live| live.stat(name).ok());
        let captured = match outside {
            Some(outside) if outside.entry.device != self.own_device => outside,
            _ => captured,
        };
        let is_mounted = captured.entry.device != self.own_device;
        Ok((captured, is_mounted))
    }

    /// Opens a directory of the same file system.
    pub fn open_child(&self, name: &CStr) -> Result<View, PathError> {
        let live = self.live.as_ref();
        Ok(View {
            directory: self.directory.open_child(name)?,
            live: live.and_then(|live| live.open_child(name).ok()),
            device: self.own_device,
        })
    }
}

/// Returns the old entry of a name; names are ascending on both sides.
pub(super) fn take_old(old: &mut OldEntries, name: &[u8]) -> Option<Entry> {
    while old.next_if(|e| e.name.as_slice() < name).is_some() {}
    old.next_if(|e| e.name.as_slice() == name)
}
