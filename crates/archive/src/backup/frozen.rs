//! Sources that do not change while they are read: `backup --snapshot`. The walker and lanes ask
//! for them.
//!
//! Invariant: paths, device numbers and everything else that is stored are those of the source
//! itself. Snapshots of the source are deleted at the end of the run.

use crate::filesystem::capture::Directory;
use crate::filesystem::open_file::OpenFile;
use machine::SubvolumeSnapshot;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a file was read as it was, beside its writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFrozen {
    /// Neither snapshots nor reflinks.
    FileSystem,
    /// Mounted for reading only.
    ReadOnly,
    /// No permission to create a file beside it.
    Permission,
    /// No space for metadata.
    NoSpace,
    /// Written to again and again while it was copied.
    Writers,
    /// Another failure.
    Other,
}

impl NotFrozen {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::Unsupported
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::InvalidInput => Self::FileSystem,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for NotFrozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileSystem => "the file system has neither btrfs snapshots nor reflinks",
            Self::ReadOnly => "the file system is mounted for reading only",
            Self::Permission => "no permission to create a file in its directory",
            Self::NoSpace => "no space left on the file system",
            Self::Writers => "programs wrote to it each time it was copied",
            Self::Other => "the file system refused it",
        })
    }
}

/// From what files were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrozenOutcome {
    /// Subvolumes of which a snapshot was made.
    pub snapshots: u64,
    /// Files that were read from a reflink.
    pub reflinks: u64,
    /// Files that were read as they were.
    pub not_frozen: u64,
    /// Why not, of the first.
    pub why: Option<NotFrozen>,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Frozen {
    /// By device number of the subvolume; `None` if no snapshot of it can be made.
    snapshots: Mutex<BTreeMap<u64, Option<SubvolumeSnapshot>>>,
    /// Devices without reflinks.
    cannot: Mutex<BTreeSet<u64>>,
    reflinks: AtomicU64,
    not_frozen: AtomicU64,
    why: Mutex<Option<NotFrozen>>,
}

impl Frozen {
    /// Returns a directory as it is in a snapshot of its subvolume, with the path and the device
    /// number that it has outside. Makes the snapshot if there is none yet. `None` if there can be
    /// none: the files are then frozen one by one.
    pub fn directory(&self, live: &Directory, device: u64) -> Option<Directory> {
        let mut snapshots = self.snapshots.lock();
        let snapshot = snapshots
            .entry(device)
            .or_insert_with(|| SubvolumeSnapshot::of(live.as_fd()).ok());
        let snapshot = snapshot.as_ref()?;
        let opened = snapshot.open(live.as_fd()).ok()?;
        Some(live.frozen(opened, (snapshot.device(), device)))
    }

    /// Returns false for a file system that has refused reflinks.
    pub fn may_reflink(&self, device: u64) -> bool {
        !self.cannot.lock().contains(&device)
    }

    /// Makes an open file read from a reflink of itself, or counts why not. `device`: its device
    /// number.
    pub fn freeze(&self, file: &mut OpenFile, directory: &Directory, device: u64) {
        let why = match self.may_reflink(device) {
            false => NotFrozen::FileSystem,
            true => match file.freeze(directory.as_fd()) {
                Ok(true) => return,
                Ok(false) => NotFrozen::Writers,
                Err(e) => NotFrozen::of(&e),
            },
        };
        if file.is_frozen() {
            // An earlier attempt has succeeded.
            return;
        }
        if why == NotFrozen::FileSystem {
            self.cannot.lock().insert(device);
        }
        self.not_frozen.fetch_add(1, Ordering::Relaxed);
        self.why.lock().get_or_insert(why);
    }

    /// A file is read from a reflink.
    pub fn add_reflink(&self) {
        self.reflinks.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts.
    pub fn outcome(&self) -> FrozenOutcome {
        FrozenOutcome {
            snapshots: self.snapshots.lock().values().flatten().count() as u64,
            reflinks: self.reflinks.load(Ordering::Relaxed),
            not_frozen: self.not_frozen.load(Ordering::Relaxed),
            why: *self.why.lock(),
        }
    }
}
