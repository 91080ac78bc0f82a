//! Sends PDUs of one connection from any thread, and numbers them. Sessions, workers and the server
//! share one.
//!
//! Invariant: status numbers rise in the order in which PDUs are sent. After a failed send the
//! connection is down for all threads. The window of command numbers never shrinks.

use crate::replies::{Numbering, Replies};
use connections::{Connection, Disconnected};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Maximum number of commands that an initiator may have in flight.
pub(crate) const DEPTH: u32 = 64;

/// Time for other threads to finish sends that do not wait for the initiator.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_millis(100);

/// Command numbers that the target accepts.
pub(crate) struct Window {
    /// Number of the next command.
    expected: AtomicU32,
    /// Number of accepted commands without an answer.
    in_flight: AtomicU32,
}

impl Window {
    /// Returns the number of the next command, and of the last one that may be sent.
    pub(crate) fn bounds(&self) -> (u32, u32) {
        let expected = self.expected.load(SeqCst);
        let free = DEPTH.saturating_sub(self.in_flight.load(SeqCst));
        (expected, expected.wrapping_add(free).wrapping_sub(1))
    }

    /// Sets the number of the first command.
    pub(crate) fn start(&self, number: u32) {
        self.expected.store(number, SeqCst);
    }

    /// Takes the command with the next number.
    pub(crate) fn advance(&self) {
        self.expected.fetch_add(1, SeqCst);
    }

    /// Counts an accepted command that is not answered at once.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        self.in_flight.fetch_add(1, SeqCst);
        Place(self.clone())
    }
}

/// The place of a command in the window, until it is answered.
pub(crate) struct Place(Arc<Window>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}

/// The sending side of one connection.
pub(crate) struct Sender {
    connection: Arc<Connection>,
    pub(crate) window: Arc<Window>,
    state: Mutex<SendState>,
    /// The login is confirmed: the initiator takes PDUs that it did not ask for.
    is_confirmed: AtomicBool,
}

struct SendState {
    next_status: u32,
    is_broken: bool,
}

/// Result of sending PDUs that the initiator did not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// They are sent, or the connection is down.
    Sent,
    /// Not sent: another thread waits for the initiator.
    Busy,
    /// Not sent: the login is not confirmed yet.
    TooEarly,
}

impl Sender {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            window: Arc::new(Window {
                expected: AtomicU32::new(1),
                in_flight: AtomicU32::new(0),
            }),
            state: Mutex::new(SendState {
                next_status: 1,
                is_broken: false,
            }),
            is_confirmed: AtomicBool::new(false),
        }
    }

    /// Numbers and sends all PDUs, and drops them.
    pub(crate) fn send(&self, replies: &mut Replies) -> Result<(), Disconnected> {
        if replies.is_empty() {
            return Ok(());
        }
        self.send_locked(&mut self.state.lock(), replies)
    }

    /// Sends the answer that completes the login. [`Sender::send_now`] sends nothing before it.
    pub(crate) fn confirm(&self, replies: &mut Replies) -> Result<(), Disconnected> {
        let mut state = self.state.lock();
        self.send_locked(&mut state, replies)?;
        self.is_confirmed.store(true, SeqCst);
        Ok(())
    }

    /// Returns true after [`Sender::confirm`].
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(SeqCst)
    }

    fn send_locked(
        &self,
        state: &mut SendState,
        replies: &mut Replies,
    ) -> Result<(), Disconnected> {
        let bytes = self.number(state, replies);
        let sent = self.send_all(bytes, &mut state.is_broken);
        replies.clear();
        sent
    }

    /// Writes the status numbers and the window into PDUs, and returns their bytes.
    fn number<'a>(&self, state: &mut SendState, replies: &'a mut Replies) -> &'a [u8] {
        let (expected, most) = self.window.bounds();
        replies.complete(|numbering| {
            let status = state.next_status;
            if numbering == Numbering::Takes {
                state.next_status = status.wrapping_add(1);
            }
            (status, expected, most)
        })
    }

    /// Sends PDUs without waiting for the initiator. One that takes only a part is dropped. Waits
    /// `until` then for another thread that sends.
    pub(crate) fn send_now(&self, replies: &mut Replies, until: Instant) -> Notice {
        let Some(mut state) = self.state.try_lock_until(until) else {
            return Notice::Busy;
        };
        if !self.is_confirmed() {
            return Notice::TooEarly;
        }
        let bytes = self.number(&mut state, replies);
        let len = bytes.len();
        let sent = self.connection.stream.send_now(bytes);
        if !sent.is_ok_and(|sent| sent == len) {
            state.is_broken = true;
            self.connection.drop_now();
        }
        Notice::Sent
    }

    fn send_all(&self, bytes: &[u8], is_broken: &mut bool) -> Result<(), Disconnected> {
        *is_broken = *is_broken || self.connection.send_all(bytes).is_err();
        if *is_broken {
            self.connection.drop_now();
            return Err(Disconnected);
        }
        Ok(())
    }
}
