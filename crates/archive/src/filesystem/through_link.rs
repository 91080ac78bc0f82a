//! Links in the target that stand where the snapshot has a directory of the path that its backup
//! was given: `/data`, a link to `/mnt/disk2/data`. Restore calls this for no other link.
//!
//! Invariant: the way leads nowhere outside the top of the target: that is the root of absolute
//! links and the end of `..`. Links that another user made, or could have swapped, are not
//! followed.

use super::{PathError, join};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A link in the target, as it is reached.
#[derive(Clone, Copy)]
pub(crate) struct LinkPlace<'a> {
    /// The top of the target.
    pub top: BorrowedFd<'a>,
    /// The directory that has the link.
    pub above: BorrowedFd<'a>,
    /// Path of that directory from the top, with a leading `/`.
    pub beneath: &'a [u8],
    /// The link's name there.
    pub name: &'a CStr,
    /// The link's path, for messages.
    pub shown: &'a Path,
}

/// Opens the directory that a link leads to.
pub(crate) fn open_through_link(at: LinkPlace<'_>) -> Result<OwnedFd, PathError> {
    let refuse = |why: io::Error| PathError::new("restore through link", at.shown, why);
    let fail = |e: Errno| refuse(e.into());
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::openat(at.above, at.name, flags, Mode::empty()).map_err(fail)?;
    let stat = rustix::fs::statat(&link, c"", AtFlags::EMPTY_PATH).map_err(fail)?;
    let above = rustix::fs::fstat(at.above).map_err(fail)?;
    let leads_to = rustix::fs::readlinkat(&link, c"", Vec::new()).map_err(fail)?;
    let leads_to = leads_to.to_bytes();
    let shown = Path::new(OsStr::from_bytes(leads_to)).display();
    if !is_of_user(&stat) || !is_closed_to_others(&above) {
        return Err(refuse(io::Error::other(format!(
            "other users can change this link to {shown}; restore into that with --target, or \
             remove the link"
        ))));
    }
    // An absolute link begins at the top again.
    let way = match leads_to.first() {
        Some(b'/') => leads_to.to_vec(),
        _ => join(at.beneath, leads_to),
    };
    let way = [b".", way.as_slice()].concat();
    let way = CString::new(way).map_err(|e| refuse(e.into()))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(at.top, &way, flags, Mode::empty(), resolve).map_err(|e| {
        let why = units::reason(&e.into());
        refuse(io::Error::other(format!(
            "it leads to {shown}: {why}; mount or create that directory, or remove the link"
        )))
    })
}

fn is_of_user(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Returns true if no other user can put a link of his own into the directory. A process
/// without privileges trusts the group.
fn is_closed_to_others(stat: &Stat) -> bool {
    let writers = match rustix::process::geteuid().is_root() {
        true => Mode::WGRP | Mode::WOTH,
        false => Mode::WOTH,
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    is_of_user(stat) && (!mode.intersects(writers) || mode.contains(Mode::SVTX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_link_leads_to_a_place_below_the_top_only() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("top/a/b")).unwrap();
        fs::create_dir_all(place.path().join("top/disk/data")).unwrap();
        fs::create_dir_all(place.path().join("disk/data/outside")).unwrap();
        let top = fs::File::open(place.path().join("top")).unwrap();
        let b = fs::File::open(place.path().join("top/a/b")).unwrap();
        let leads = |to: &str| {
            let link = place.path().join("top/a/b/link");
            let _ = fs::remove_file(&link);
            symlink(to, &link).unwrap();
            let opened = open_through_link(LinkPlace {
                top: top.as_fd(),
                above: b.as_fd(),
                beneath: b"/a/b",
                name: c"link",
                shown: &link,
            })?;
            let stat = rustix::fs::fstat(&opened).unwrap();
            Ok::<_, PathError>(stat.st_ino)
        };
        let inode = |path: &str| fs::metadata(place.path().join(path)).unwrap().ino();
        for (to, expected) in [
            ("/disk/data", "top/disk/data"),
            ("../../disk/data", "top/disk/data"),
            ("../../../../disk", "top/disk"),
            ("/", "top"),
            (".", "top/a/b"),
        ] {
            assert_eq!(leads(to).unwrap(), inode(expected), "{to}");
        }
        let missing = leads("/disk/data/outside").unwrap_err();
        assert!(
            missing.to_string().contains("/disk/data/outside"),
            "{missing}"
        );
        // Somebody else may put any link here.
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path().join("top/a/b"), open).unwrap();
        let refused = leads("/disk/data").unwrap_err().to_string();
        assert!(refused.contains("other users can change"), "{refused}");
    }
}
