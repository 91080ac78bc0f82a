//! The lock of a file on a file system without locks (ENOLCK: NFS without its lock daemon, some
//! FUSE). `local` calls this.
//!
//! Two things together: a name in the kernel (an abstract socket), which ends with its process,
//! keeps processes of this machine apart; a file `NAME.owner`, which is made only where there is
//! none, keeps other machines away.
//!
//! Invariant: an owner's file is removed by its owner, or when its process cannot live any more:
//! it was of this machine, and that has booted since or has no such process. In doubt it is held,
//! and the message says by whom.

use super::path_resolver::Named;
use crate::{MediaError, MediaErrorKind};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Longer files are not an owner's.
const OWNER_BYTES_MAX: u64 = 4096;

/// A held lock. It ends on drop.
pub(super) struct OwnerLock {
    directory: OwnedFd,
    name: String,
    /// Released after the file is removed.
    _name: UnixDatagram,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A file that stays is recognised as one of a process that has ended.
        let _ = rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::empty());
    }
}

/// Returns true if the file system answered that it has no locks.
pub(super) fn is_without_locks(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Locks `file`, which was opened as `named`; `shown` is its path in messages.
pub(super) fn take(file: &File, named: &Named<'_>, shown: &str) -> Result<OwnerLock, MediaError> {
    take_as(&Owner::this()?, file, named, shown)
}

fn take_as(
    own: &Owner,
    file: &File,
    named: &Named<'_>,
    shown: &str,
) -> Result<OwnerLock, MediaError> {
    let failed = |e: io::Error| MediaError::from_io("lock", shown, e);
    let here = name_in_kernel(file).map_err(failed)?;
    let name = format!("{}.owner", named.name);
    let directory = rustix::io::fcntl_dupfd_cloexec(named.directory(), 0);
    let directory = directory.map_err(|e| failed(e.into()))?;
    // A second time if the first one found a file of a process that has ended.
    for _ in 0..2 {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(&directory, &*name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(made) => {
                let lock = OwnerLock {
                    directory,
                    name,
                    _name: here,
                };
                let mut made = File::from(made);
                let written = named.give(&made);
                let written = written.and_then(|()| made.write_all(own.text().as_bytes()));
                written.and_then(|()| made.sync_all()).map_err(failed)?;
                return Ok(lock);
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(failed(e.into())),
        }
        let other = read(&directory, &name).map_err(failed)?;
        let has_ended = other.as_ref().is_some_and(|other| own.outlived(other));
        if !has_ended {
            return Err(held(other, shown));
        }
        match rustix::fs::unlinkat(&directory, &*name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(failed(e.into())),
        }
    }
    Err(MediaError::plain(MediaErrorKind::Locked, "lock", shown))
}

/// Takes a name for the file that no second process of this machine gets.
fn name_in_kernel(file: &File) -> io::Result<UnixDatagram> {
    let of = file.metadata()?;
    let name = format!("quintet/lock/{}/{}", of.dev(), of.ino());
    let address = SocketAddr::from_abstract_name(name)?;
    UnixDatagram::bind_addr(&address).map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => io::ErrorKind::WouldBlock.into(),
        _ => e,
    })
}

fn held(other: Option<Owner>, shown: &str) -> MediaError {
    let owner_text = match other {
        Some(other) => format!("process {} on machine {}", other.process, other.host),
        None => "a process that has not said its name".to_owned(),
    };
    let why = format!(
        "{owner_text} has it, and this file system has no locks that would end with a process. If it has ended, \
         remove {shown}.owner"
    );
    MediaError {
        kind: MediaErrorKind::Locked,
        ..MediaError::refused("lock", shown, &why)
    }
}

/// Returns who an owner's file names; `None` if it names nobody.
fn read(directory: &OwnedFd, name: &str) -> io::Result<Option<Owner>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        // Its owner removed it meanwhile; the next try will tell.
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    let mut text = String::new();
    opened.take(OWNER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Owner::parse(&text))
}

/// A process, and how to find out whether it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    host: String,
    machine: String,
    /// Another one after each boot.
    boot: String,
    /// Numbers of processes mean something in here.
    namespace: String,
    process: u32,
    /// Start of the process, in the kernel's ticks since the boot.
    started: u64,
}

impl Owner {
    fn this() -> Result<Self, MediaError> {
        let text = |path: &str| {
            std::fs::read_to_string(path)
                .map(|text| text.trim().to_owned())
                .map_err(|e| MediaError::from_io("read", path, e))
        };
        let process = std::process::id();
        let namespace = "/proc/self/ns/pid";
        let namespace =
            std::fs::read_link(namespace).map_err(|e| MediaError::from_io("read", namespace, e))?;
        Ok(Self {
            host: text("/proc/sys/kernel/hostname")?,
            // Some have none; then the name alone counts.
            machine: text("/etc/machine-id").unwrap_or_default(),
            boot: text("/proc/sys/kernel/random/boot_id")?,
            namespace: namespace.display().to_string(),
            process,
            started: started(process).unwrap_or(0),
        })
    }

    fn text(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}\n{}\n",
            self.host, self.machine, self.boot, self.namespace, self.process, self.started
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split('\n').map(str::to_owned);
        let owner = Self {
            host: lines.next()?,
            machine: lines.next()?,
            boot: lines.next()?,
            namespace: lines.next()?,
            process: lines.next()?.parse().ok()?,
            started: lines.next()?.parse().ok()?,
        };
        // A text that was cut off is not believed.
        (lines.next().is_some_and(|rest| rest.is_empty()) && lines.next().is_none())
            .then_some(owner)
    }

    /// Returns true if `other` has certainly ended.
    fn outlived(&self, other: &Self) -> bool {
        if (&self.host, &self.machine) != (&other.host, &other.machine) {
            return false;
        }
        let lives = || started(other.process) == Some(other.started);
        self.boot != other.boot || (self.namespace == other.namespace && !lives())
    }
}

/// Returns when a process of this namespace started; `None` if there is none.
fn started(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it is in parentheses, and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
