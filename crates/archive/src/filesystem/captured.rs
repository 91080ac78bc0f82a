//! Metadata of an entry of a source tree. [`super::capture`] creates it.
//!
//! Invariant: all fields are of one moment; later reads are compared with them.

use format::tree::{Entry, EntryKind};

/// Metadata of an entry, before its content is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// All metadata. The content of files and directories is [`format::recipe::ObjectRoot::EMPTY`],
    /// `sparse` is false and, after [`super::capture::Directory::stat`], `xattrs` is empty: the
    /// backup fills them in.
    pub entry: Entry,
    /// Length in bytes.
    pub len: u64,
    /// Bytes that the file system allocated; less than `len` for sparse and compressed files.
    pub allocated_bytes: u64,
}

impl Captured {
    /// Returns true for a regular file that may have holes, so that its data map is worth reading.
    pub fn may_have_holes(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { .. }) && self.allocated_bytes < self.len
    }

    /// Returns true if the file equals an earlier snapshot's entry as far as the file system
    /// records changes: same inode, type, length, modification time and change time.
    pub fn unchanged_since(&self, earlier: &Entry) -> bool {
        let now = &self.entry;
        let same_kind = match (&now.kind, &earlier.kind) {
            (EntryKind::File { .. }, EntryKind::File { content, .. }) => content.len == self.len,
            (EntryKind::Directory { .. }, EntryKind::Directory { .. }) => true,
            (a, b) => a == b,
        };
        same_kind
            && now.modified == earlier.modified
            && now.changed == earlier.changed
            && now.inode == earlier.inode
    }
}
