//! Grant server: lends I/O grants to one client that reads the pool itself. The thread of a
//! connection calls this.
//!
//! Invariant: a client has at most one grant and one request. The grant ends when the client
//! requests the next one, when the connection ends, and after [`LEASE_LIMIT`] in any case, so a
//! slow client blocks the device no longer than that. A request ends with its connection.

use device::{DeviceQueue, StepGrant};
use qos::Flow;
use qos::lease::{Ask, LEASE_BYTES_MAX, LeaseAnswer, Used};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Maximum time that a client keeps a grant. A client that needs longer computes or waits for
/// something else: others use the device meanwhile, and the client may still use up its lease.
const LEASE_LIMIT: Duration = Duration::from_millis(250);
/// Time between two checks that a waiting client lives.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time between two messages to a waiting client, so that it does not count the server as stuck.
const WAITS_EVERY: Duration = Duration::from_secs(1);

/// Serves the client until it or the server ends. An error is a mistake of the client.
pub(super) fn serve_leases(
    stream: &UnixStream,
    flow: Flow,
    queue: &DeviceQueue,
    interrupt: &Interrupt,
) -> io::Result<()> {
    // Limits the wait for the rest of a request that arrived in part.
    stream.set_read_timeout(Some(LEASE_LIMIT))?;
    let mut leased = LeasedGrant::default();
    loop {
        match heard(stream, interrupt, leased.left())? {
            Heard::Ask(ask) => {
                let before = std::mem::take(&mut leased);
                let Used {
                    reads,
                    seeks,
                    bytes,
                } = ask.used;
                queue.count_leased(
                    flow,
                    reads.into(),
                    seeks.into(),
                    bytes.min(before.bytes).into(),
                );
                drop(before);
                if ask.wanted > 0 {
                    let bytes = queue.step_bytes(flow, ask.wanted.into());
                    let bytes = u32::try_from(bytes)
                        .unwrap_or(u32::MAX)
                        .min(LEASE_BYTES_MAX);
                    let Some(grant) = granted(stream, flow, bytes, queue, interrupt)? else {
                        return Ok(());
                    };
                    leased = LeasedGrant {
                        bytes,
                        grant: Some((grant, Instant::now())),
                    };
                }
            }
            Heard::Nothing => leased.grant = None,
            Heard::End => return Ok(()),
        }
    }
}

/// The lease of a client.
#[derive(Default)]
struct LeasedGrant<'a> {
    bytes: u32,
    /// The grant, and the time when it began.
    grant: Option<(StepGrant<'a>, Instant)>,
}

impl LeasedGrant<'_> {
    /// Returns how much longer the client keeps the grant. `None` if it has none.
    fn left(&self) -> Option<Duration> {
        let (_, since) = self.grant.as_ref()?;
        Some(LEASE_LIMIT.saturating_sub(since.elapsed()))
    }
}

enum Heard {
    Ask(Ask),
    /// The client sent nothing within the limit.
    Nothing,
    /// The client has ended, or the server is ending.
    End,
}

fn heard(
    stream: &UnixStream,
    interrupt: &Interrupt,
    at_most: Option<Duration>,
) -> io::Result<Heard> {
    if let Some(at_most) = at_most {
        if !is(stream, PollFlags::IN, at_most)? {
            return Ok(Heard::Nothing);
        }
    } else if interrupt.wait_for(stream, PollFlags::IN).is_err() {
        return Ok(Heard::End);
    }
    if interrupt.requested() {
        return Ok(Heard::End);
    }
    let mut bytes = [0; Ask::BYTES];
    let mut from = stream;
    if from.read_exact(&mut bytes).is_err() {
        return Ok(Heard::End);
    }
    Ask::decode(&bytes)
        .map(Heard::Ask)
        .map_err(io::Error::other)
}

/// Waits for an I/O grant and tells the client. `None` if the client has ended or the server is
/// ending.
fn granted<'q>(
    stream: &UnixStream,
    flow: Flow,
    bytes: u32,
    queue: &'q DeviceQueue,
    interrupt: &Interrupt,
) -> io::Result<Option<StepGrant<'q>>> {
    let hung_up = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut grant = queue.ask(flow, bytes.into());
    let mut said = Instant::now();
    while !grant.wait(LOOK_EVERY) {
        if interrupt.requested() || is(stream, hung_up, Duration::ZERO)? {
            return Ok(None);
        }
        if said.elapsed() >= WAITS_EVERY {
            said = Instant::now();
            if !say(stream, LeaseAnswer::Waits) {
                return Ok(None);
            }
        }
    }
    Ok(say(stream, LeaseAnswer::Granted(bytes)).then_some(grant))
}

/// Sends without waiting. Returns false if the client does not read.
fn say(stream: &UnixStream, answer: LeaseAnswer) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::net::send(stream, &answer.encode(), flags);
    sent == Ok(LeaseAnswer::BYTES)
}

/// Returns true if the stream reports one of these events within this time.
fn is(stream: &UnixStream, like: PollFlags, within: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, like)];
    let within = Timespec::try_from(within).ok();
    match poll(&mut fds, within.as_ref()) {
        Ok(found) => Ok(found > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
