//! Options for files that exist in the target. The restore asks for each file.
//!
//! Invariant: pure decisions; [`super::apply`] carries them out.

use format::tree::{Entry, EntryKind, Timestamp};

/// Selects existing files to write again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// All.
    #[default]
    Always,
    /// Files whose length or modification time differs.
    IfChanged,
    /// Files older than the snapshot's.
    IfNewer,
    /// None.
    Never,
}

/// How an existing file gets its new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// Under another name first, renamed when complete: readers see old or new.
    #[default]
    Replace,
    /// Into the existing file: keeps its inode and its hard links, writes only differences.
    Rewrite,
}

/// An existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Its type.
    pub kind: ExistingKind,
    /// Length in bytes.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
}

/// Type of an existing file, as far as a restore distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Link,
    /// Anything else.
    Other,
}

impl Overwrite {
    /// Returns true if `entry`, with `len` bytes of content, is to be written over the existing
    /// file.
    pub fn writes_over(self, existing: &Existing, entry: &Entry, len: u64) -> bool {
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::IfNewer => entry.modified > existing.modified,
            Self::IfChanged => {
                let same_kind = is_file && existing.kind == ExistingKind::File;
                !same_kind || existing.len != len || existing.modified != entry.modified
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::recipe::ObjectRoot;

    fn entry(seconds: i64) -> Entry {
        Entry {
            name: b"f".to_vec(),
            kind: EntryKind::File {
                content: ObjectRoot::EMPTY,
                sparse: false,
            },
            mode: 0o644,
            uid: 0,
            gid: 0,
            modified: Timestamp { seconds, nanos: 5 },
            changed: Timestamp::default(),
            inode: 1,
            device: 1,
            links: 1,
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn decisions() {
        let existing = Existing {
            kind: ExistingKind::File,
            len: 7,
            modified: Timestamp {
                seconds: 10,
                nanos: 5,
            },
        };
        for (overwrite, seconds, len, expected) in [
            (Overwrite::Always, 10, 7, true),
            (Overwrite::Never, 11, 8, false),
            (Overwrite::IfChanged, 10, 7, false),
            (Overwrite::IfChanged, 10, 8, true),
            (Overwrite::IfChanged, 9, 7, true),
            (Overwrite::IfNewer, 9, 8, false),
            (Overwrite::IfNewer, 10, 8, false),
            (Overwrite::IfNewer, 11, 7, true),
        ] {
            let says = overwrite.writes_over(&existing, &entry(seconds), len);
            assert_eq!(says, expected, "{overwrite:?} {seconds} {len}");
        }
        let other = Existing {
            kind: ExistingKind::Other,
            ..existing
        };
        assert!(Overwrite::IfChanged.writes_over(&other, &entry(10), 7));
    }
}
