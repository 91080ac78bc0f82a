//! Extended attributes (including ACLs and capabilities) of one file: reads them, and changes them
//! to a wanted set. Backup and restore call this.
//!
//! Invariant: lists are sorted by name, as a directory object requires. Each denied attribute is
//! reported, and the others are processed.

use super::{PathError, as_path, join};
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// Names and values, sorted by name.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// First buffer sizes: most lists are empty and most values are short.
const LIST_BYTES: usize = 512;
const VALUE_BYTES: usize = 256;
/// The kernel's limit for a list and for a value.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// The file that has the attributes.
pub struct XattrHolder<'a> {
    access: Access<'a>,
    /// For messages.
    path: Cow<'a, Path>,
}

enum Access<'a> {
    Opened(BorrowedFd<'a>),
    /// The last component is not followed.
    Named(CString),
    /// Of an `O_PATH` handle: its name below `/proc`, followed.
    Handle(CString),
}

impl<'a> XattrHolder<'a> {
    /// A file or directory that is open.
    pub fn opened(fd: BorrowedFd<'a>, path: &'a Path) -> Self {
        Self {
            access: Access::Opened(fd),
            path: Cow::Borrowed(path),
        }
    }

    /// An entry of an open directory, `path` for messages. There is no `*xattrat` call to use. The
    /// path through `/proc` leads to this directory even if a link has replaced it; otherwise a
    /// file could get another file's capabilities.
    pub fn beneath(directory: &impl AsFd, path: &[u8], name: &CStr) -> Self {
        Self {
            access: Access::Named(in_proc(directory.as_fd(), name)),
            path: Cow::Owned(as_path(&join(path, name.to_bytes())).to_owned()),
        }
    }

    /// The file of an `O_PATH` handle, including a symbolic link itself.
    pub fn handle(fd: BorrowedFd<'_>, path: &'a Path) -> Self {
        Self {
            access: Access::Handle(handle_path(fd)),
            path: Cow::Borrowed(path),
        }
    }

    fn list(&self, into: &mut [u8]) -> Result<usize> {
        match &self.access {
            Access::Opened(fd) => rustix::fs::flistxattr(fd, into),
            Access::Named(path) => rustix::fs::llistxattr(path, into),
            Access::Handle(path) => rustix::fs::listxattr(path, into),
        }
    }

    fn get(&self, name: &CStr, into: &mut [u8]) -> Result<usize> {
        match &self.access {
            Access::Opened(fd) => rustix::fs::fgetxattr(fd, name, into),
            Access::Named(path) => rustix::fs::lgetxattr(path, name, into),
            Access::Handle(path) => rustix::fs::getxattr(path, name, into),
        }
    }

    fn set(&self, name: &CStr, value: &[u8]) -> Result<()> {
        let flags = XattrFlags::empty();
        match &self.access {
            Access::Opened(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Access::Named(path) => rustix::fs::lsetxattr(path, name, value, flags),
            Access::Handle(path) => rustix::fs::setxattr(path, name, value, flags),
        }
    }

    fn remove(&self, name: &CStr) -> Result<()> {
        match &self.access {
            Access::Opened(fd) => rustix::fs::fremovexattr(fd, name),
            Access::Named(path) => rustix::fs::lremovexattr(path, name),
            Access::Handle(path) => rustix::fs::removexattr(path, name),
        }
    }

    fn error(&self, operation: &'static str, e: Errno) -> PathError {
        PathError::new(operation, &*self.path, e)
    }
}

/// Reads all attributes that this process may read; errors go to `unreadable`.
pub fn read_all(holder: &XattrHolder<'_>, unreadable: &mut Vec<PathError>) -> Xattrs {
    let mut short = [0; LIST_BYTES];
    let mut long = Vec::new();
    let names = match fetch(&mut short, &mut long, |into| holder.list(into)) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Xattrs::new(),
        Err(e) => {
            unreadable.push(holder.error("list attributes", e));
            return Xattrs::new();
        }
    };
    let mut xattrs = Xattrs::new();
    for name in names.split_inclusive(|b| *b == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        let mut short = [0; VALUE_BYTES];
        let mut long = Vec::new();
        match fetch(&mut short, &mut long, |into| holder.get(name, into)) {
            Ok(value) => xattrs.push((name.to_bytes().to_vec(), value.to_vec())),
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            Err(e) => unreadable.push(holder.error("read attribute", e)),
        }
    }
    xattrs.sort_unstable();
    xattrs
}

/// Makes the attributes equal to `wanted`: sets those that differ, removes others (inherited ACLs
/// above all), but keeps labels that the system gives to every file.
pub fn bring_to(
    holder: &XattrHolder<'_>,
    wanted: &[(Vec<u8>, Vec<u8>)],
    failed: &mut Vec<PathError>,
) {
    let mut unreadable = Vec::new();
    let present = read_all(holder, &mut unreadable);
    for (name, _) in &present {
        let labels = [
            b"security.selinux".as_slice(),
            b"security.ima",
            b"security.evm",
        ];
        if labels.contains(&name.as_slice()) || wanted.iter().any(|(w, _)| w == name) {
            continue;
        }
        if let Err(e) = c_name(name).and_then(|name| holder.remove(&name)) {
            failed.push(holder.error("remove attribute", e));
        }
    }
    for attribute in wanted {
        if present.contains(attribute) {
            continue;
        }
        if let Err(e) = c_name(&attribute.0).and_then(|name| holder.set(&name, &attribute.1)) {
            failed.push(holder.error("set attribute", e));
        }
    }
}

/// `/proc/self/fd/N`: a path of the handle itself.
pub(super) fn handle_path(fd: BorrowedFd<'_>) -> CString {
    c_string(format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes())
}

/// Calls with the short buffer, then with a sufficient one.
fn fetch<'b>(
    short: &'b mut [u8],
    long: &'b mut Vec<u8>,
    call: impl Fn(&mut [u8]) -> Result<usize>,
) -> Result<&'b [u8]> {
    match call(short) {
        Ok(len) => short.get(..len).ok_or(Errno::IO),
        Err(Errno::RANGE) => {
            long.resize(XATTR_BYTES_MAX, 0);
            let len = call(long)?;
            long.get(..len).ok_or(Errno::IO)
        }
        Err(e) => Err(e),
    }
}

fn in_proc(directory: BorrowedFd<'_>, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    c_string(path)
}

/// Paths come from the kernel or from checked names: they have no NUL.
fn c_string(bytes: Vec<u8>) -> CString {
    CString::new(bytes).unwrap_or_default()
}

fn c_name(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| Errno::INVAL)
}
