//! The server's end of leases: one client that reads the pool itself gets turns at the device.
//!
//! Invariant: a client has one turn at once, and one wish. Its turn ends when it gives it back, when its
//! connection ends, and after [`LEASE_LIMIT`], whatever it does; its wish ends with its connection. It is
//! never waited for with a turn in hand for longer than that. Called by the thread of a connection.

use crate::interrupt::Interrupt;
use device::{DeviceQueue, StepTurn};
use qos::Flow;
use qos::lease::{Answer, Ask, LEASE_BYTES_MAX, Used};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Who has not given a turn back after so long computes, or waits for somebody else: others have the
/// device meanwhile, and the lease stays good.
const LEASE_LIMIT: Duration = Duration::from_millis(250);
/// A wish is looked after so often: whether its client lives.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A client that waits hears so often that it is not forgotten.
const WAITS_EVERY: Duration = Duration::from_secs(1);

/// Until the client ends, or the server does. An error is what the client did wrong.
pub(super) fn lend(
    stream: &UnixStream,
    flow: Flow,
    queue: &DeviceQueue,
    interrupt: &Interrupt,
) -> io::Result<()> {
    // Who sends half of an ask is not waited for longer.
    stream.set_read_timeout(Some(LEASE_LIMIT))?;
    let mut lent = Lent::default();
    loop {
        match heard(stream, interrupt, lent.left())? {
            Heard::Ask(ask) => {
                let before = std::mem::take(&mut lent);
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
                    let Some(turn) = granted(stream, flow, bytes, queue, interrupt)? else {
                        return Ok(());
                    };
                    lent = Lent {
                        bytes,
                        turn: Some((turn, Instant::now())),
                    };
                }
            }
            Heard::Nothing => lent.turn = None,
            Heard::End => return Ok(()),
        }
    }
}

/// What a client has.
#[derive(Default)]
struct Lent<'a> {
    bytes: u32,
    /// And since when.
    turn: Option<(StepTurn<'a>, Instant)>,
}

impl Lent<'_> {
    /// How much longer it has the turn.
    fn left(&self) -> Option<Duration> {
        let (_, since) = self.turn.as_ref()?;
        Some(LEASE_LIMIT.saturating_sub(since.elapsed()))
    }
}

enum Heard {
    Ask(Ask),
    /// For so long.
    Nothing,
    /// The client is gone, or the server stops.
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

/// Waits for the client's turn, and tells it. `None`: it is gone, or the server stops.
fn granted<'q>(
    stream: &UnixStream,
    flow: Flow,
    bytes: u32,
    queue: &'q DeviceQueue,
    interrupt: &Interrupt,
) -> io::Result<Option<StepTurn<'q>>> {
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut turn = queue.ask(flow, bytes.into());
    let mut said = Instant::now();
    while !turn.wait(LOOK_EVERY) {
        if interrupt.requested() || is(stream, gone, Duration::ZERO)? {
            return Ok(None);
        }
        if said.elapsed() >= WAITS_EVERY {
            said = Instant::now();
            if !say(stream, Answer::Waits) {
                return Ok(None);
            }
        }
    }
    Ok(say(stream, Answer::Granted(bytes)).then_some(turn))
}

/// False: the client does not listen.
fn say(stream: &UnixStream, answer: Answer) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::net::send(stream, &answer.encode(), flags);
    sent == Ok(Answer::BYTES)
}

/// Whether the client's end is like that, within so long.
fn is(stream: &UnixStream, like: PollFlags, within: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, like)];
    let within = Timespec::try_from(within).ok();
    match poll(&mut fds, within.as_ref()) {
        Ok(found) => Ok(found > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
