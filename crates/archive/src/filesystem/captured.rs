//! What is known of an entry of a source tree without reading its content.
//!
//! Invariant: of one moment: what is read later is compared with it. Made by [`super::capture`].

use format::tree::{Entry, EntryKind};

/// What is known of an entry without reading its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// All metadata. The content of files and directories is [`format::recipe::ObjectRoot::EMPTY`], `sparse` is
    /// false and, after [`super::capture::Directory::stat`], `xattrs` is empty: the driver fills them in.
    pub entry: Entry,
    /// Length in bytes.
    pub len: u64,
    /// Bytes that the file system allocated; less than `len` for sparse and compressed files.
    pub allocated_bytes: u64,
}

impl Captured {
    /// The entry is a regular file that may have holes: worth asking for its data map.
    pub fn may_have_holes(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { .. }) && self.allocated_bytes < self.len
    }

    /// Nothing that the file system records of a change differs from an earlier snapshot's entry:
    /// same inode, type, length, modification and change time.
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
