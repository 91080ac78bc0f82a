//! Metadata of an entry of a source tree. [`super::capture`] creates it.
//!
//! Invariant: all fields are of one moment; later reads are compared with them.

use format::tree::{Entry, EntryKind};

/// Attributes that an unchanged file must have kept, beside type, length and modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sameness {
    /// The inode number. FUSE file systems may give a file another one with each mount.
    pub inode: bool,
    /// The status change time. A copy of a file with its times has another one.
    pub changed: bool,
}

impl Sameness {
    /// All that the file system records.
    pub const ALL: Self = Self {
        inode: true,
        changed: true,
    };
}

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
    /// records changes: same type, length, modification time, and what `sameness` says. A file
    /// that was written while it was read has another length or modification time now than its
    /// entry, so it is found without the status change time too.
    pub fn unchanged_since(&self, earlier: &Entry, sameness: Sameness) -> bool {
        let now = &self.entry;
        let same_kind = match (&now.kind, &earlier.kind) {
            (EntryKind::File { .. }, EntryKind::File { content, .. }) => content.len == self.len,
            (EntryKind::Directory { .. }, EntryKind::Directory { .. }) => true,
            (a, b) => a == b,
        };
        same_kind
            && now.modified == earlier.modified
            && (!sameness.changed || now.changed == earlier.changed)
            && (!sameness.inode || now.inode == earlier.inode)
    }
}
