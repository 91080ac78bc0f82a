//! The log of a disk's operations, from which crash states are built. `disk` and `file` write it,
//! `pending` replays it, and tests assert the order of operations.
//!
//! Invariant: an entry is recorded when the operation takes effect, under the same lock, so that
//! the log's order is the disk's order.

use crate::image::{DirId, FileId, Image};
use media::Barrier;
use std::fmt;
use std::sync::Arc;

/// Effect of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Pending changes are durable.
    Durable,
    /// Left out by [`crate::SimDisk::without`]: returned Ok and did nothing.
    LeftOut,
    /// Failed with an error; pending changes never become durable.
    Dropped,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Slot {
    pub(crate) dir: DirId,
    pub(crate) name: Arc<str>,
}

/// One operation.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are what the variant's name says")]
pub enum Op {
    /// A new empty file.
    Create { at: Slot, file: FileId },
    /// Bytes written.
    Write {
        file: FileId,
        offset: u64,
        data: Arc<[u8]>,
    },
    /// Truncated or grown.
    SetLen { file: FileId, len: u64 },
    /// Moved; a file that had the new name lost it.
    Rename { from: Slot, to: Slot, file: FileId },
    /// A file's name removed.
    Remove { at: Slot },
    /// A new directory.
    MakeDir { at: Slot, dir: DirId },
    /// A file's sync.
    SyncFile {
        file: FileId,
        point: Barrier,
        effect: Effect,
    },
    /// A directory's sync.
    SyncDir {
        dir: DirId,
        point: Barrier,
        effect: Effect,
    },
    /// The lock was taken.
    Lock,
    /// The process died; a new one took over.
    Kill,
}

/// One operation and its path.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The operation.
    pub op: Op,
    /// The path, as given by the caller; the new one for a rename.
    pub path: Arc<str>,
}

impl Entry {
    /// The barrier, if this is a sync.
    pub fn sync(&self) -> Option<Barrier> {
        match self.op {
            Op::SyncFile { point, .. } | Op::SyncDir { point, .. } => Some(point),
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "."
        } else {
            &*self.path
        };
        match &self.op {
            Op::Create { .. } => write!(f, "create {path}"),
            Op::Write { offset, data, .. } => {
                write!(f, "write {path} {offset}+{}", data.len())
            }
            Op::SetLen { len, .. } => write!(f, "set_len {path} {len}"),
            Op::Rename { from, .. } => write!(f, "rename {} to {path}", from.name),
            Op::Remove { .. } => write!(f, "remove {path}"),
            Op::MakeDir { .. } => write!(f, "make_dir {path}"),
            Op::SyncFile { point, effect, .. } => write!(f, "sync {path} {point:?} {effect:?}"),
            Op::SyncDir { point, effect, .. } => write!(f, "sync_dir {path} {point:?} {effect:?}"),
            Op::Lock => write!(f, "lock {path}"),
            Op::Kill => write!(f, "kill"),
        }
    }
}

/// The contents of a disk when recording began, and all operations since.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) base: Image,
    /// The operations.
    pub log: Arc<Vec<Entry>>,
}
