//! Runs `fusermount3`, the set-user-ID program that mounts for users other than root. `mount` calls
//! this.
//!
//! Invariant: its standard input is one end of a socket, and it sends the device through that.
//! Source: libfuse, `util/fusermount.c`.

use super::{MountError, MountOptions, kernel_options};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "fusermount3";

pub(super) fn mount(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(no_device)?;
    let mut list = format!("nosuid,nodev,fsname={},subtype=quintet", options.name);
    if options.read_only {
        list.push_str(",ro");
    }
    for option in kernel_options(options) {
        list.push(',');
        list.push_str(option);
    }
    let mut command = Command::new(PROGRAM);
    command
        .args(["-o", &list, "--"])
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs));
    run(command)?;
    receive(&ours).map_err(no_device)
}

fn no_device(error: Errno) -> MountError {
    MountError::NoFusermount(error.into())
}

pub(super) fn unmount(mountpoint: &Path, lazily: bool) -> Result<(), MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    command.arg("--").arg(mountpoint).stdin(Stdio::null());
    match run(command) {
        Err(MountError::Fusermount(said)) if said.contains("busy") => Err(MountError::Busy),
        Err(MountError::Fusermount(said)) if said.contains("not found in") => Ok(()),
        done => done,
    }
}

fn run(mut command: Command) -> Result<(), MountError> {
    let output = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(MountError::NoFusermount)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let said = said.strip_prefix("fusermount3:").unwrap_or(said).trim();
    Err(MountError::Fusermount(said.to_owned()))
}

/// Receives the device, which comes with a message of one byte.
fn receive(socket: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err(Errno::BADMSG)
}
