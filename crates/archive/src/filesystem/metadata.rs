//! Sets owner, attributes, mode and times of a restored file. The order keeps them.
//! [`super::apply`] calls this.
//!
//! Invariant: owner first (setting it clears set-user-ID bits and capabilities), then attributes
//! (they need write permission), then mode, then times. Files are reached by handle only, so
//! renaming in the target does not redirect a change to another file.

use super::PathError;
use super::xattrs::{self, XattrHolder, handle_path};
use format::tree::{Entry, EntryKind, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::borrow::Cow;
use std::os::fd::BorrowedFd;
use std::path::Path;

const SET_ID_BITS: u32 = 0o6000;

/// Lets a program run with more than its user's rights, as set-user-ID does.
const CAPABILITIES: &[u8] = b"security.capability";

/// Rights of this process on restored files, and the user's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// The process may give files away (root, or `CAP_CHOWN`; detected by user id 0).
    pub change_owner: bool,
    /// Files get their stored owner and group; else they belong to the restoring user.
    pub owner: bool,
    /// Programs keep set-user-ID and set-group-ID bits and capabilities.
    pub set_id: bool,
    /// Files get exactly their stored extended attributes; else none is set or removed.
    pub xattrs: bool,
}

impl Privileges {
    /// Rights of this process, to restore everything.
    pub fn of_process() -> Self {
        Self {
            change_owner: rustix::process::geteuid().is_root(),
            ..Self::NONE
        }
    }

    /// Rights of a user who may not give files away, to restore everything.
    pub const NONE: Self = Self {
        change_owner: false,
        owner: true,
        set_id: true,
        xattrs: true,
    };
}

/// Metadata that could not be set. The files exist with their content.
#[derive(Debug, Default)]
pub struct Shortfalls {
    /// One for each path and piece of metadata.
    pub warnings: Vec<PathError>,
    /// Files that belong to the restoring user because only root may give files away.
    pub owners_not_set: u64,
}

impl Shortfalls {
    /// Adds the shortfalls of another thread.
    pub fn absorb(&mut self, other: Self) {
        self.warnings.extend(other.warnings);
        self.owners_not_set += other.owners_not_set;
    }
}

/// The way to reach a file.
#[derive(Clone, Copy)]
pub(super) enum Reached<'a> {
    /// Opened for reading or writing: files and directories.
    Opened(BorrowedFd<'a>),
    /// By an `O_PATH` handle: devices, pipes, sockets.
    Handle(BorrowedFd<'a>),
    /// By an `O_PATH` handle of a symbolic link, which has no mode.
    Link(BorrowedFd<'a>),
}

/// Sets all metadata of `entry`.
pub(super) fn apply(
    to: Reached<'_>,
    path: &Path,
    entry: &Entry,
    privileges: Privileges,
    shortfalls: &mut Shortfalls,
) {
    let owned = set_owner(to, path, entry, privileges, shortfalls);
    if privileges.xattrs {
        let holder = match to {
            Reached::Opened(fd) => XattrHolder::opened(fd, path),
            Reached::Handle(fd) | Reached::Link(fd) => XattrHolder::handle(fd, path),
        };
        let wanted = wanted_xattrs(entry, privileges);
        xattrs::bring_to(&holder, &wanted, &mut shortfalls.warnings);
    }
    // A program that runs as its owner must not run as another user instead.
    let mode = match owned && privileges.set_id {
        true => entry.mode,
        false => entry.mode & !SET_ID_BITS | directory_bits(entry),
    };
    let mut warn = |operation, result: rustix::io::Result<()>| {
        if let Err(e) = result {
            shortfalls.warnings.push(PathError::new(operation, path, e));
        }
    };
    // Users who restore without these need no warning.
    if mode != entry.mode && privileges.set_id && privileges.owner {
        warn("keep set-user-ID bits", Err(Errno::PERM));
    }
    warn("set mode", set_mode(to, Mode::from_raw_mode(mode)));
    warn("set times", set_times(to, entry.modified));
}

fn wanted_xattrs(entry: &Entry, privileges: Privileges) -> Cow<'_, [(Vec<u8>, Vec<u8>)]> {
    let is_kept = |(name, _): &&(Vec<u8>, Vec<u8>)| name != CAPABILITIES;
    match privileges.set_id || entry.xattrs.iter().all(|x| is_kept(&x)) {
        true => Cow::Borrowed(&entry.xattrs),
        false => entry.xattrs.iter().filter(is_kept).cloned().collect(),
    }
}

/// On a directory, set-group-ID only determines the group of its files.
fn directory_bits(entry: &Entry) -> u32 {
    match entry.kind {
        EntryKind::Directory { .. } => entry.mode & SET_ID_BITS,
        _ => 0,
    }
}

/// Returns true if the file has the owner and group of `entry` afterwards.
fn set_owner(
    to: Reached<'_>,
    path: &Path,
    entry: &Entry,
    privileges: Privileges,
    shortfalls: &mut Shortfalls,
) -> bool {
    let stat = match to {
        Reached::Opened(fd) => rustix::fs::fstat(fd),
        Reached::Handle(fd) | Reached::Link(fd) => rustix::fs::statat(fd, c"", AtFlags::EMPTY_PATH),
    };
    let present = match stat {
        Ok(stat) => (stat.st_uid, stat.st_gid),
        Err(e) => {
            shortfalls.warnings.push(PathError::new("stat", path, e));
            return false;
        }
    };
    if present == (entry.uid, entry.gid) {
        return true;
    }
    if !privileges.owner {
        return false;
    }
    // An unprivileged user may still set one of its own groups.
    let uid = privileges.change_owner.then(|| Uid::from_raw(entry.uid));
    let gid = Some(Gid::from_raw(entry.gid));
    let changed = match to {
        Reached::Opened(fd) => rustix::fs::fchown(fd, uid, gid),
        Reached::Handle(fd) | Reached::Link(fd) => {
            rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)
        }
    };
    match changed {
        Ok(()) if privileges.change_owner || present.0 == entry.uid => true,
        Ok(()) => {
            shortfalls.owners_not_set += 1;
            false
        }
        Err(_) if !privileges.change_owner => {
            shortfalls.owners_not_set += 1;
            false
        }
        Err(e) => {
            shortfalls
                .warnings
                .push(PathError::new("set owner", path, e));
            false
        }
    }
}

fn set_mode(to: Reached<'_>, mode: Mode) -> rustix::io::Result<()> {
    match to {
        Reached::Opened(fd) => rustix::fs::fchmod(fd, mode),
        Reached::Handle(fd) => rustix::fs::chmod(handle_path(fd).as_c_str(), mode),
        // Links have no mode of their own on Linux.
        Reached::Link(..) => Ok(()),
    }
}

fn set_times(to: Reached<'_>, modified: Timestamp) -> rustix::io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: modified.seconds,
            tv_nsec: modified.nanos.into(),
        },
    };
    match to {
        Reached::Opened(fd) => rustix::fs::futimens(fd, &times),
        Reached::Handle(fd) | Reached::Link(fd) => {
            let path = handle_path(fd);
            rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty())
        }
    }
}
