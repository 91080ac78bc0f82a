//! A process that reads a pool beside the server that has it, and takes turns there.
//!
//! Invariant: what it reads it reads itself; only when depends on the server. One round trip for
//! each lease: some hundred KiB, some MiB where nobody else is. Beside others a lease is given back
//! when its reads have ended, not while some are at the device still. Without a server, and when
//! the server refuses, ends or does not answer, or is another user's, everything passes; it is
//! looked for again later. Reads wait here only; the wish to stop ends the waiting. Who may have a
//! turn at another server's device meanwhile waits a limited time, as two servers that wait so for
//! each other would for ever. Plugged into the disk of a pool that a command opens for reading.

use super::address;
use crate::interrupt::Interrupt;
use device::{RequestQueue, Turn};
use media::Asker;
use parking_lot::{Condvar, Mutex};
use qos::lease::{Answer, Ask, Hello, LEASE_BYTES_MAX, Used};
use qos::{Direction, Flow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server that says nothing for so long is stuck: nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that has a turn at its own device to give back waits no longer for a lease than this; one that is busy gives
/// turns much sooner.
pub const IN_A_TURN_LIMIT: Duration = Duration::from_secs(5);
/// Time between two looks for a server, after one failed.
const LOOK_FOR_EVERY: Duration = Duration::from_secs(30);
/// Time between two looks at the wish to stop.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// What a read takes of a lease at least, unless it goes on where the one before ended: a device has
/// more work with it than its bytes say.
const SEEK_BYTES: u64 = 64 << 10;

/// See the module's head.
pub struct Leases {
    /// Absolute: the pool's directory.
    pool: PathBuf,
    flow: Flow,
    interrupt: Interrupt,
    /// For a lease, in all.
    limit: Option<Duration>,
    state: Mutex<State>,
    /// Signalled when no read is at the device.
    ended: Condvar,
}

/// A read at the device.
struct Reading<'a>(&'a Leases);

impl Turn for Reading<'_> {}

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
struct State {
    server: Option<UnixStream>,
    /// When there was none.
    missed_at: Option<Instant>,
    /// What is left of the lease.
    left_bytes: u64,
    /// Others use the device too.
    is_beside: bool,
    /// Reads at the device.
    reading: usize,
    /// Since the last ask.
    used: Used,
}

impl Leases {
    /// Of the server that has the pool in this directory, whenever there is one.
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

    /// Waits for a lease so long at most; then reads pass, for a while.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// A read of so many bytes: out of the lease, or of the next one.
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

    /// True: there is a server, and a lease of it.
    fn renew(&self, state: &mut State, needed: u64) -> bool {
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
            // It ends, or it does not want this: the reads go on.
            Err(_) => {
                state.left_bytes = 0;
                state.is_beside = false;
                state.missed_at = Some(Instant::now());
                false
            }
        }
    }

    /// The connection, which the caller puts back while it is good.
    fn server(&self, state: &mut State) -> Option<UnixStream> {
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
            let mut bytes = [0; Answer::BYTES];
            server.read_exact(&mut bytes)?;
            match Answer::decode(&bytes).map_err(io::Error::other)? {
                Answer::Waits => {}
                Answer::Granted(bytes) => return Ok(bytes),
            }
        }
    }

    /// Until the server says something.
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
        _asker: Asker,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn Turn + '_>> {
        // Who writes has the pool to itself.
        (direction == Direction::Read)
            .then(|| -> Box<dyn Turn + '_> { Box::new(self.take(is_sequential, bytes)) })
    }

    fn note(&self, _asker: Asker, _direction: Direction, _bytes: u64) {}
}

impl Drop for Leases {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(mut server) = state.server.take() {
            let (wanted, used) = (0, state.used);
            // For its counts only.
            let _ = server.write_all(&Ask { wanted, used }.encode());
        }
    }
}
