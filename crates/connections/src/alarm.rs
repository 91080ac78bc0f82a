//! Wakes a thread that waits for its client. Memory pools ring it.
//!
//! Invariant: an alarm that rings before a thread waits wakes it at once.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Wakes [`crate::ByteStream::wait`].
pub struct Alarm(OwnedFd);

impl Alarm {
    /// Makes one. Fails if the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes the thread that waits, or the next one that will.
    pub fn ring(&self) {
        // It fails only when it has rung 2^64 times.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until a socket has bytes or has ended, or the alarm rings, at most `limit`. Returns
    /// true if receiving would not wait.
    pub(crate) fn wait(&self, socket: impl AsFd, limit: Duration) -> io::Result<bool> {
        let mut fds = [
            PollFd::new(&socket, PollFlags::IN),
            PollFd::new(&self.0, PollFlags::IN),
        ];
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = !fds[0].revents().is_empty();
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
        Ok(is_ready)
    }
}
