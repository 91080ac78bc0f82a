//! The mount guard: a process that outlives the server of a mount for a moment, to unmount what a
//! killed server leaves. `mounting` starts it.
//!
//! Invariant: it unmounts only a mount that no process serves. If both processes are killed, the
//! next `mount` at that place unmounts.

use anyhow::Context;
use command_line::MountGuardArgs;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use terminal::exit::Exit;

/// The running guard. Dropping it ends the process.
pub(super) struct Guard(Child);

impl Guard {
    /// Starts a guard for an absolute path.
    pub fn start(mountpoint: &Path) -> io::Result<Self> {
        // /proc/self/exe is this program even if its file was replaced. The guard gets no secrets
        // of the user, and its own process group keeps it from the terminal's Ctrl-C.
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
        // The guard may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the guard's own command.
pub(in crate::commands) fn run(args: &MountGuardArgs) -> anyhow::Result<Exit> {
    let server = Pid::from_raw(args.process).context("this is not a process id")?;
    // A process that has ended has closed its descriptors, so its mount is not served.
    if let Ok(handle) = pidfd_open(server, PidfdFlags::empty())
        && getppid() == Some(server)
    {
        let mut disconnected = [PollFd::new(&handle, PollFlags::IN)];
        while poll(&mut disconnected, None) == Err(Errno::INTR) {}
    }
    if fuse::is_abandoned(&args.mountpoint) {
        fuse::unmount_abandoned(&args.mountpoint)?;
    }
    Ok(Exit::Done)
}
