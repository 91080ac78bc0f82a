//! A process that outlives this one for a moment, to unmount what it leaves when it is killed.
//!
//! Invariant: only a mount that nobody serves any more is unmounted. Who kills both leaves the mount to
//! the next `mount` at that place.

use crate::cli::MountGuardArgs;
use crate::exit::Exit;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The running guard. Dropping it ends it.
pub(super) struct Guard(Child);

impl Guard {
    /// Starts it for an absolute path.
    pub fn start(mountpoint: &Path) -> io::Result<Self> {
        // Our own program, also when its file was replaced; without what the user gave us to open
        // the pool, and out of reach of the terminal's Ctrl-C.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let child = Command::new("/proc/self/exe")
            .arg("mount-guard")
            .arg(mountpoint)
            .arg(std::process::id().to_string())
            .env_clear()
            .env("PATH", path)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The guard's own command.
pub(in crate::commands) fn run(args: &MountGuardArgs) -> anyhow::Result<Exit> {
    let server = Pid::from_raw(args.process).context("not a process")?;
    // A process that is gone has its descriptors closed: nobody serves the mount.
    if let Ok(handle) = pidfd_open(server, PidfdFlags::empty())
        && getppid() == Some(server)
    {
        let mut gone = [PollFd::new(&handle, PollFlags::IN)];
        while poll(&mut gone, None) == Err(Errno::INTR) {}
    }
    if fuse::is_abandoned(&args.mountpoint) {
        fuse::unmount_abandoned(&args.mountpoint)?;
    }
    Ok(Exit::Done)
}
