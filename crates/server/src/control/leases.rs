//! Leases: a process that reads a pool beside its server asks the server for I/O grants. A command
//! that opens a pool for reading plugs this into the pool's disk.
//!
//! Invariant: the process does its reads itself; the server decides only when. One round trip gets
//! one lease: some hundred KiB, or some MiB if the device has no other user. Beside other users,
//! the next lease is requested only when no read of this one is at the device. Reads pass freely
//! without a server, and when the server refuses, ends, does not answer or is of another user. The
//! process looks for a server again later. Reads wait only here, and a stop request ends the wait.
//! A process that holds a grant of its own server waits here for a limited time: otherwise two
//! servers that wait for each other would wait for ever.

use super::address;
use device::{RequestGrant, RequestQueue};
use media::IoOrigin;
use parking_lot::{Condvar, Mutex};
use qos::lease::{Ask, Hello, LEASE_BYTES_MAX, LeaseAnswer, Used};
use qos::{Direction, Flow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Limit for a silent server: after it, the server counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit for a lease, in a server that holds a grant at its own device. A busy server grants much
/// sooner.
pub const IN_A_GRANT_LIMIT: Duration = Duration::from_secs(5);
/// Time between two attempts to find a server.
const LOOK_FOR_EVERY: Duration = Duration::from_secs(30);
/// Time between two checks for a stop request.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Minimum charge for a read that does not continue the one before, bytes: a seek costs the device
/// more than the bytes say.
const SEEK_BYTES: u64 = 64 << 10;

/// Asks the pool's server for I/O grants. See the module's head.
pub struct Leases {
    /// Directory of the pool, an absolute path.
    pool: PathBuf,
    flow: Flow,
    interrupt: Interrupt,
    /// Total waiting time for one lease.
    limit: Option<Duration>,
    state: Mutex<LeaseState>,
    /// Notified when no read is at the device.
    ended: Condvar,
}

/// A read that is at the device.
struct Reading<'a>(&'a Leases);

impl RequestGrant for Reading<'_> {}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.reading -= 1;
        if state.reading == 0 {
            self.0.ended.notify_all();
        }
    }
}

#[derive(Default)]
struct LeaseState {
    server: Option<UnixStream>,
    /// Time of the last failed attempt to find a server.
    missed_at: Option<Instant>,
    /// Bytes left of the lease.
    left_bytes: u64,
    /// Others use the device too.
    is_beside: bool,
    /// Number of reads at the device.
    reading: usize,
    /// Use of the device since the last request.
    used: Used,
}

impl Leases {
    /// Uses the server of the pool in this directory, whenever there is one. `pool` must be
    /// absolute.
    pub fn new(pool: PathBuf, flow: Flow, interrupt: Interrupt) -> Self {
        Self {
            pool,
            flow,
            interrupt,
            limit: None,
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Limits the wait for a lease. After the limit, reads pass for a while.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Charges a read of `bytes` bytes to the lease, or to a new one.
    fn take(&self, is_sequential: bool, bytes: u64) -> Reading<'_> {
        let least = if is_sequential { 0 } else { SEEK_BYTES };
        let needed = bytes.max(least).min(LEASE_BYTES_MAX.into());
        let mut state = self.state.lock();
        while state.left_bytes < needed && state.is_beside && state.reading > 0 {
            self.ended.wait(&mut state);
        }
        state.reading += 1;
        if state.left_bytes < needed && !self.renew(&mut state, needed) {
            drop(state);
            return Reading(self);
        }
        state.left_bytes = state.left_bytes.saturating_sub(needed);
        let used = &mut state.used;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        used.reads = used.reads.saturating_add(1);
        used.seeks = used.seeks.saturating_add(u32::from(!is_sequential));
        used.bytes = used.bytes.saturating_add(bytes);
        drop(state);
        Reading(self)
    }

    /// Requests a lease. Returns false if no server grants one.
    fn renew(&self, state: &mut LeaseState, needed: u64) -> bool {
        let Some(server) = self.server(state) else {
            return false;
        };
        let used = std::mem::take(&mut state.used);
        match self.ask(&server, needed, used) {
            Ok(bytes) => {
                state.left_bytes = bytes.into();
                state.is_beside = bytes < LEASE_BYTES_MAX;
                state.server = Some(server);
                true
            }
            // The server is ending or has refused: reads pass without it.
            Err(_) => {
                state.left_bytes = 0;
                state.is_beside = false;
                state.missed_at = Some(Instant::now());
                false
            }
        }
    }

    /// Takes the connection, or makes a new one. The caller puts it back while it works.
    fn server(&self, state: &mut LeaseState) -> Option<UnixStream> {
        if let Some(server) = state.server.take() {
            return Some(server);
        }
        let missed = state.missed_at.map(|at| at.elapsed());
        if missed.is_some_and(|ago| ago < LOOK_FOR_EVERY) {
            return None;
        }
        state.used = Used::default();
        let server = self.connect().ok().flatten();
        state.missed_at = server.is_none().then(Instant::now);
        server
    }

    fn connect(&self) -> io::Result<Option<UnixStream>> {
        let Some(mut server) = address::connect(&self.pool, PATIENCE)? else {
            return Ok(None);
        };
        server.write_all(&Hello { flow: self.flow }.encode())?;
        Ok(Some(server))
    }

    fn ask(&self, mut server: &UnixStream, needed: u64, used: Used) -> io::Result<u32> {
        let wanted = u32::try_from(needed).unwrap_or(LEASE_BYTES_MAX);
        server.write_all(&Ask { wanted, used }.encode())?;
        let since = Instant::now();
        loop {
            if self.limit.is_some_and(|limit| since.elapsed() >= limit) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wait(server)?;
            let mut bytes = [0; LeaseAnswer::BYTES];
            server.read_exact(&mut bytes)?;
            match LeaseAnswer::decode(&bytes).map_err(io::Error::other)? {
                LeaseAnswer::Waits => {}
                LeaseAnswer::Granted(bytes) => return Ok(bytes),
            }
        }
    }

    /// Waits until the server sends something. Fails on a stop request and after [`PATIENCE`].
    fn wait(&self, server: &UnixStream) -> io::Result<()> {
        let since = Instant::now();
        loop {
            let mut fds = [PollFd::new(server, PollFlags::IN)];
            match poll(&mut fds, Some(&LOOK_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            self.interrupt.check().map_err(io::Error::other)?;
            if since.elapsed() >= PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

impl RequestQueue for Leases {
    fn enter(
        &self,
        _io_origin: IoOrigin,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn RequestGrant + '_>> {
        // A process that writes has the pool's lock, so there is no server to ask.
        (direction == Direction::Read)
            .then(|| -> Box<dyn RequestGrant + '_> { Box::new(self.take(is_sequential, bytes)) })
    }

    fn note(&self, _io_origin: IoOrigin, _direction: Direction, _bytes: u64) {}
}

impl Drop for Leases {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(mut server) = state.server.take() {
            let (wanted, used) = (0, state.used);
            // The last request reports the use of the device and wants nothing.
            let _ = server.write_all(&Ask { wanted, used }.encode());
        }
    }
}
