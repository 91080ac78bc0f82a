//! A read-only snapshot of a btrfs subvolume, for as long as a backup reads it. `backup --snapshot`
//! calls this.
//!
//! Invariant: a snapshot is deleted when it is dropped. One that a killed process left is deleted
//! before the next is made: its owner no longer has it locked.

use crate::sys::snapshots::{create, destroy};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT, flock,
    fstatfs, openat, statx,
};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How the names of snapshots begin, at the top of their subvolume.
pub const SNAPSHOT_NAME_START: &str = ".quintet-snapshot-";
/// Inode of the top of every subvolume.
const TOP_INODE: u64 = 256;
/// Inode of the empty directory that stands for a subvolume in a snapshot of the one around it.
const EMPTY_INODE: u64 = 2;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// See the module's head.
#[derive(Debug)]
pub struct SubvolumeSnapshot {
    /// The top of the subvolume, and its path.
    top: OwnedFd,
    top_path: PathBuf,
    name: CString,
    /// The snapshot, locked.
    snapshot: OwnedFd,
    device: u64,
    /// When the top was last modified: before the snapshot was made in it, and by that.
    modified: (Timespec, Timespec),
}

impl SubvolumeSnapshot {
    /// Makes a snapshot of the subvolume that has an open directory. Needs write access,
    /// and root, because other users may not delete it again.
    ///
    /// Fails with [`io::ErrorKind::Unsupported`] if the file system is no btrfs.
    pub fn of(directory: BorrowedFd<'_>) -> io::Result<Self> {
        const BTRFS: u64 = 0x9123_683E;
        if fstatfs(directory)?.f_type as u64 & 0xFFFF_FFFF != BTRFS {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if !rustix::process::geteuid().is_root() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (top, top_path) = top_of(directory)?;
        // Another backup must not delete the snapshot between its creation and its lock.
        flock(&top, FlockOperation::LockExclusive)?;
        let made = Self::make(top, top_path);
        if let Ok(made) = &made {
            flock(&made.top, FlockOperation::Unlock)?;
        }
        made
    }

    fn make(top: OwnedFd, top_path: PathBuf) -> io::Result<Self> {
        delete_left(top.as_fd())?;
        let before = modified(top.as_fd())?;
        let mut number = 0;
        let name = loop {
            let name = format!("{SNAPSHOT_NAME_START}{}-{number}", std::process::id());
            let name = CString::new(name)?;
            match create(top.as_fd(), top.as_fd(), &name) {
                Ok(()) => break name,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(e),
            }
        };
        let opened = openat(&top, &name, DIRECTORY, Mode::empty());
        let locked = opened.and_then(|snapshot| {
            flock(&snapshot, FlockOperation::NonBlockingLockExclusive)?;
            let device = device_and_inode(snapshot.as_fd())?.0;
            Ok((snapshot, device, modified(top.as_fd())?))
        });
        match locked {
            Ok((snapshot, device, after)) => Ok(Self {
                top,
                top_path,
                name,
                snapshot,
                device,
                modified: (before, after),
            }),
            Err(e) => {
                destroy(top.as_fd(), &name)?;
                Err(e.into())
            }
        }
    }

    /// Device number of the files in the snapshot.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Opens in the snapshot what an open directory was in the subvolume.
    pub fn open(&self, directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let path = path_of(directory)?;
        let below = path.strip_prefix(&self.top_path);
        let below = below.map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        let mut at = self.snapshot.try_clone()?;
        for name in below {
            at = openat(&at, name, DIRECTORY, Mode::empty())?;
        }
        let (_, inode) = device_and_inode(directory)?;
        match device_and_inode(at.as_fd())? == (self.device, inode) {
            true => Ok(at),
            // Renamed meanwhile.
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for SubvolumeSnapshot {
    fn drop(&mut self) {
        let (before, by_snapshot) = self.modified;
        let is_by_others = modified(self.top.as_fd()).is_ok_and(|now| now != by_snapshot);
        // The next backup deletes what stays.
        let deleted = destroy(self.top.as_fd(), &self.name);
        if deleted.is_ok() && !is_by_others {
            // A time that stays wrong is stored by the next backup, and nothing else.
            let _ = rustix::fs::futimens(
                &self.top,
                &Timestamps {
                    last_access: OMITTED,
                    last_modification: before,
                },
            );
        }
    }
}

/// Leaves a time as it is.
const OMITTED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_OMIT,
};

fn modified(file: BorrowedFd<'_>) -> rustix::io::Result<Timespec> {
    let stat = rustix::fs::fstat(file)?;
    Ok(Timespec {
        tv_sec: stat.st_mtime,
        tv_nsec: stat.st_mtime_nsec as _,
    })
}

/// Returns true for the top of a snapshot that a backup has made, in its subvolume or in a snapshot
/// of that.
pub fn is_backup_snapshot(name: &[u8], inode: u64) -> bool {
    name.starts_with(SNAPSHOT_NAME_START.as_bytes()) && [TOP_INODE, EMPTY_INODE].contains(&inode)
}

/// Deletes snapshots whose owners have ended without that.
fn delete_left(top: BorrowedFd<'_>) -> io::Result<()> {
    for entry in fs::read_dir(format!("/proc/self/fd/{}", top.as_raw_fd()))? {
        let name = entry?.file_name();
        if !name.as_bytes().starts_with(SNAPSHOT_NAME_START.as_bytes()) {
            continue;
        }
        let name = CString::new(name.into_vec())?;
        let Ok(left) = openat(top, &name, DIRECTORY, Mode::empty()) else {
            continue;
        };
        let is_top = device_and_inode(left.as_fd())?.1 == TOP_INODE;
        if is_top && flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok() {
            destroy(top, &name)?;
        }
    }
    Ok(())
}

/// Opens the top of the subvolume that has an open directory.
fn top_of(directory: BorrowedFd<'_>) -> io::Result<(OwnedFd, PathBuf)> {
    let (device, mut inode) = device_and_inode(directory)?;
    let mut path = path_of(directory)?;
    let mut at = directory.try_clone_to_owned()?;
    while inode != TOP_INODE {
        at = openat(&at, "..", DIRECTORY, Mode::empty())?;
        let found = device_and_inode(at.as_fd())?;
        // Only a part of the subvolume is mounted.
        if found.0 != device || !path.pop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        inode = found.1;
    }
    Ok((at, path))
}

fn path_of(directory: BorrowedFd<'_>) -> io::Result<PathBuf> {
    fs::read_link(Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()))
}

fn device_and_inode(file: BorrowedFd<'_>) -> rustix::io::Result<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let found = statx(file, OsStr::new(""), flags, StatxFlags::INO)?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Ok((device, found.stx_ino))
}
