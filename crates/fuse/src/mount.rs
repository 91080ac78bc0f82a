//! Mounts and unmounts: with mount(2) if we may, else with `fusermount3`. The program calls this
//! before [`crate::Session`].
//!
//! Invariant: a mount ignores set-user-ID bits and devices of its files.

mod fusermount;

use crate::device::Device;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Options and access rights of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// First column of the table of mounts; must not contain `,`.
    pub name: String,
    /// The kernel refuses all changes.
    pub read_only: bool,
    /// Other users have access.
    pub allow_other: bool,
    /// The kernel enforces modes, owners and ACLs.
    pub enforce_permissions: bool,
}

/// Reason why mounting or unmounting failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// `/dev/fuse` cannot be opened.
    #[error(
        "cannot open /dev/fuse: {}; load the kernel module fuse (modprobe fuse)",
        units::reason(&(*.0).into())
    )]
    Device(Errno),
    /// mount(2) or umount(2) refused.
    #[error("{0}")]
    Refused(Errno),
    /// Files are in use.
    #[error("files of the mount are in use")]
    Busy,
    /// `fusermount3` does not exist or cannot be run.
    #[error(
        "cannot run fusermount3: {}; install fuse3, or mount as root",
        units::reason(.0)
    )]
    NoFusermount(io::Error),
    /// `fusermount3` refused with this message.
    #[error("fusermount3: {0}")]
    Fusermount(String),
}

/// Method of mounting; unmounting uses the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Fusermount,
}

/// Returns true if a mount exists there that no process serves any more.
pub fn is_abandoned(mountpoint: &Path) -> bool {
    // Do not use stat: the kernel may answer it from cached attributes.
    rustix::fs::statfs(mountpoint).is_err_and(|error| error == Errno::NOTCONN)
}

/// Unmounts an abandoned mount at an absolute path. Open files stay, and fail.
pub fn unmount_abandoned(mountpoint: &Path) -> Result<(), MountError> {
    let by = |way| Unmounter {
        mountpoint: mountpoint.to_owned(),
        way,
    };
    match by(Way::Direct).unmount(true) {
        Err(MountError::Refused(Errno::PERM)) => by(Way::Fusermount).unmount(true),
        done => done,
    }
}

/// A new mount that is not served yet.
#[derive(Debug)]
pub struct Mounted {
    /// Argument of [`crate::Session::start`].
    pub device: Device,
    /// Unmounts it later.
    pub unmounter: Unmounter,
}

/// Ends a mount.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
    way: Way,
}

/// Mounts at `mountpoint`, an absolute path of a directory, without links.
pub fn mount(mountpoint: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    let (fd, way) = match directly(mountpoint, options) {
        Err(MountError::Refused(Errno::PERM) | MountError::Device(Errno::ACCESS)) => {
            (fusermount::mount(mountpoint, options)?, Way::Fusermount)
        }
        mounted => (mounted?, Way::Direct),
    };
    Ok(Mounted {
        device: Device::new(fd),
        unmounter: Unmounter {
            mountpoint: mountpoint.to_owned(),
            way,
        },
    })
}

fn directly(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(MountError::Device)?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        fd.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    for option in kernel_options(options) {
        data.push(',');
        data.push_str(option);
    }
    let data = CString::new(data).map_err(|_| MountError::Refused(Errno::INVAL))?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    rustix::mount::mount(
        options.name.as_str(),
        mountpoint,
        "fuse.quintet",
        flags,
        data.as_c_str(),
    )
    .map_err(MountError::Refused)?;
    Ok(fd)
}

/// Yields options that both mount(2) and `fusermount3` pass on to the kernel.
fn kernel_options(options: &MountOptions) -> impl Iterator<Item = &'static str> {
    let chosen = [
        (options.allow_other, "allow_other"),
        (options.enforce_permissions, "default_permissions"),
    ];
    chosen
        .into_iter()
        .filter_map(|(wanted, option)| wanted.then_some(option))
}

impl Unmounter {
    /// Unmounts. Fails with `Busy` while files are in use, unless `lazily`: then the name is free
    /// at once, and the session ends with the last use.
    pub fn unmount(&self, lazily: bool) -> Result<(), MountError> {
        if self.way == Way::Fusermount {
            return fusermount::unmount(&self.mountpoint, lazily);
        }
        let flags = match lazily {
            true => UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
            false => UnmountFlags::NOFOLLOW,
        };
        match rustix::mount::unmount(&self.mountpoint, flags) {
            // It is no longer a mount: another process unmounted it first.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy),
            Err(error) => Err(MountError::Refused(error)),
        }
    }
}
