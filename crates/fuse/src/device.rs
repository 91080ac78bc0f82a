//! Reads requests from `/dev/fuse` and writes replies, for one mount. `mount` opens the device, the
//! session uses it.
//!
//! Invariant: one read is one request, one write is one reply. Several threads may call both at
//! once.

use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An open `/dev/fuse`, or in tests a socket that preserves message boundaries.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// Result of waiting for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A request of this length, bytes.
    Request(usize),
    /// The file system is not mounted any more.
    Unmounted,
}

impl Device {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Waits for a request.
    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<Received, Errno> {
        loop {
            match rustix::io::read(&self.0, &mut *into) {
                // Aborted: unmounted while requests were in flight.
                Ok(0) | Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Unmounted),
                Ok(len) => return Ok(Received::Request(len)),
                // The process gave up before we saw its request.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one reply or notice.
    pub(crate) fn send(&self, parts: &[&[u8]]) -> Result<(), Errno> {
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        rustix::io::writev(&self.0, &slices).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
