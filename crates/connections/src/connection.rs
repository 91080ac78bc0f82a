//! Holds the state that the server and the threads of one connection share. The server makes one
//! per client; sessions, writers and the memory pools read it.
//!
//! Invariant: code that ends a connection sets `closing` before it ends the stream. A session that
//! still has requests then stops at the next pause.

use crate::stream::ByteStream;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The client has not introduced itself yet.
const HALF_OPEN: u8 = 0;
/// The client has introduced itself.
const ADMITTED: u8 = 1;
/// The client was dropped before it did, to make room for another one.
const GIVEN_AWAY: u8 = 2;

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// The client has disconnected, or does not take its replies.
pub struct Disconnected;

/// One client.
pub struct Connection {
    /// Its socket.
    pub stream: Arc<dyn ByteStream>,
    closing: AtomicBool,
    /// True when no reply can reach the client any more; never cleared.
    down: AtomicBool,
    /// [`HALF_OPEN`], then one of the others for ever.
    admission: AtomicU8,
    /// The export that the client last asked for. It is set before the export is opened.
    export: Mutex<String>,
    made: Instant,
    /// Bytes that were sent and received.
    moved: AtomicU64,
    /// Runs while the client has not taken a reply; see [`Clock`].
    taking: Clock,
}

/// Start of an action that the client must finish: milliseconds after the connection was made, plus
/// one; 0 when there is none.
#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn start(&self, connection: &Connection) {
        self.0.store(connection.age_ms() + 1, Relaxed);
    }

    fn stop(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Connection {
    /// Makes the state of a client that has just connected.
    pub fn new(stream: Arc<dyn ByteStream>) -> Self {
        Self {
            stream,
            closing: AtomicBool::new(false),
            down: AtomicBool::new(false),
            admission: AtomicU8::new(HALF_OPEN),
            export: Mutex::default(),
            made: Instant::now(),
            moved: AtomicU64::new(0),
            taking: Clock::default(),
        }
    }

    fn age_ms(&self) -> u64 {
        self.made.elapsed().as_millis() as u64
    }

    /// Counts bytes that were sent or received. Large messages are sent in pieces, so that this
    /// tells slow clients from those that stall.
    pub fn count(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the number of bytes that were sent and received.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Sends all of `bytes`. Fails if the client does not take them.
    pub fn send_all(&self, mut bytes: &[u8]) -> Result<(), Disconnected> {
        self.taking.start(self);
        while !bytes.is_empty() {
            let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
            match self.stream.send(piece) {
                Ok(sent) if sent > 0 => {
                    self.count(sent);
                    bytes = bytes.get(sent..).unwrap_or_default();
                }
                Ok(_) | Err(_) => break,
            }
        }
        self.taking.stop();
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(Disconnected)
        }
    }

    /// Returns the time for which the client has not taken a reply.
    pub fn stalled(&self) -> Duration {
        match self.taking.0.load(Relaxed) {
            0 => Duration::ZERO,
            start => Duration::from_millis(self.age_ms().saturating_sub(start - 1)),
        }
    }

    /// Records the export before it is opened. Code that removes the export later finds the
    /// connection.
    pub fn claim(&self, export: &str) {
        let mut claimed = self.export.lock();
        export.clone_into(&mut claimed);
    }

    /// Returns true if this is the export that the client last asked for.
    pub fn has_claimed(&self, export: &str) -> bool {
        let claimed = self.export.lock();
        *claimed == export
    }

    /// The client has introduced itself, and proved who it is if it must: it is no longer dropped
    /// to make room for another one. Returns false if it was already: the session must then
    /// confirm nothing.
    #[must_use]
    pub fn admit(&self) -> bool {
        self.decide(ADMITTED)
    }

    /// Drops the client to make room for another one. Returns false if it is admitted.
    pub(crate) fn give_away(&self) -> bool {
        let is_given = self.decide(GIVEN_AWAY);
        if is_given {
            self.drop_now();
        }
        is_given
    }

    /// Ends the half-open state. Returns false if it has ended otherwise.
    fn decide(&self, state: u8) -> bool {
        let decided = self
            .admission
            .compare_exchange(HALF_OPEN, state, Relaxed, Relaxed);
        decided.is_ok() || decided == Err(state)
    }

    /// Returns true after [`Connection::admit`].
    pub fn is_admitted(&self) -> bool {
        self.admission.load(Relaxed) == ADMITTED
    }

    /// Returns true if the session must take only requests that have already arrived.
    pub fn closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Lets the session answer requests that have arrived, then ends it.
    pub fn close(&self) {
        self.closing.store(true, Relaxed);
        self.stream.shutdown_recv();
    }

    /// Returns true if the connection is known to be down. Does not ask the system.
    pub fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// Returns true if no reply can reach the client. Asks the system.
    pub fn is_abandoned(&self) -> bool {
        self.is_down() || self.stream.hung_up()
    }

    /// Returns true if no reply can reach the client. Asks the system, and ends the connection if
    /// so.
    pub fn look_for_client(&self) -> bool {
        let is_abandoned = self.is_abandoned();
        if is_abandoned && !self.is_down() {
            self.drop_now();
        }
        is_abandoned
    }

    /// Ends both directions now. Queued reads are dropped; queued changes are still executed.
    pub fn drop_now(&self) {
        self.down.store(true, Relaxed);
        self.closing.store(true, Relaxed);
        self.stream.shutdown();
    }
}
