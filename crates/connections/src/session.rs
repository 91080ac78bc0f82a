//! Holds what a session has of its server: the connection, memory, threads, counters and limits.
//! The server makes one for each connection; sessions own it.
//!
//! Invariant: a client costs a limited time before it has introduced itself. Each connection is
//! counted as it ended.

use crate::buffers::Input;
use crate::connection::{Connection, Disconnected};
use crate::limits::ServerLimits;
use crate::memory::{MemoryPool, Share};
use crate::stats::ServerCounters;
use crate::stream::ByteStream;
use crate::threads::{ThreadShare, Threads};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Data of requests and replies at which replies are sent although more requests have arrived,
/// bytes. A client that waits for some of them continues while the rest is served.
pub const BATCH_BYTES: usize = 32 << 10;
/// Output memory that a session keeps between batches, bytes: the largest reads of usual clients
/// (2 MiB, qemu-img) and replies before them.
pub const SESSION_OUTPUT_BYTES: usize = (2 << 20) + (256 << 10);
/// Output memory that each worker keeps between replies, bytes.
pub const WORKER_OUTPUT_BYTES: usize = 64 << 10;
/// Reads up to this size need no lease while the connection's thread serves them, because its
/// output has space, bytes.
pub const SMALL_REPLY_BYTES: u64 = 256 << 10;
/// Number of waiting reads that go to workers after a sign that the client keeps several in flight.
const DEEP_REQUESTS: u32 = 64;
/// Number of small reads between two checks for the client.
const LOOK_REQUESTS: u32 = 64;

/// Context of a session: its connection and its server.
pub struct SessionContext {
    /// The connection of its client.
    pub connection: Arc<Connection>,
    /// Number of the connection: no other connection of this server has or had it.
    pub number: u64,
    /// The server's address, as the client sees it; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// The client's address; `None` for a unix socket.
    pub peer: Option<SocketAddr>,
    /// The server's counters.
    pub counters: Arc<ServerCounters>,
    /// The server's limits.
    pub limits: ServerLimits,
    /// Memory for large reads.
    pub reads: Arc<Share>,
    /// Memory for large changes.
    pub changes: Arc<Share>,
    /// Its threads.
    pub threads: Arc<ThreadShare>,
}

/// Result of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client disconnected, properly or between two requests, or the server stops.
    Clean,
    /// The client sent invalid data, disconnected within a request, or did not read its replies.
    Dropped,
}

impl SessionContext {
    /// Makes that of a session without a server, with memory for `pool_bytes` each way.
    pub fn alone(stream: Arc<dyn ByteStream>, pool_bytes: u64, limits: ServerLimits) -> Self {
        let connection = Arc::new(Connection::new(stream));
        let share = || {
            let pool = Arc::new(MemoryPool::new(pool_bytes, limits.stall_limit));
            pool.share(0, connection.clone())
        };
        Self {
            number: 0,
            local: None,
            peer: None,
            counters: Arc::default(),
            reads: share(),
            changes: share(),
            threads: Arc::new(Threads::default()).share(),
            connection,
            limits,
        }
    }

    /// Waits until `len` bytes have arrived, but not past `until`.
    pub fn need(&self, input: &mut Input, len: usize, until: Instant) -> Result<(), Disconnected> {
        while input.peek(0, len).is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.connection.stream.set_recv_timeout(Some(left)).is_err() {
                return Err(Disconnected);
            }
            match input.fill(&*self.connection.stream, len) {
                Ok(received) if received > 0 => {}
                Ok(_) | Err(_) => return Err(Disconnected),
            }
        }
        Ok(())
    }

    /// Begins the handshake. Returns the time at which it must have ended.
    pub fn begin_handshake(&self) -> Result<Instant, Disconnected> {
        let limit = self.limits.handshake_limit;
        let send_limit = Some(limit.min(self.limits.send_limit));
        let stream = &self.connection.stream;
        stream
            .set_send_timeout(send_limit)
            .map_err(|_| Disconnected)?;
        Ok(Instant::now() + limit)
    }

    /// Serves a client after its handshake, which may have ended the session, and counts its end.
    pub fn finish<T>(
        &self,
        handshake: Result<Option<T>, Disconnected>,
        serve: impl FnOnce(T) -> End,
    ) -> End {
        let end = match handshake {
            Ok(Some(agreed)) => serve(agreed),
            Ok(None) => End::Clean,
            Err(Disconnected) => {
                self.counters.handshakes_failed.fetch_add(1, Relaxed);
                End::Dropped
            }
        };
        if end == End::Dropped {
            self.counters.dropped.fetch_add(1, Relaxed);
        }
        self.connection.drop_now();
        end
    }
}

/// Habits of a client, as the thread of its connection has seen them.
#[derive(Default)]
pub struct Habits {
    /// Number of waiting reads to hand to workers before one is tried on this thread again.
    deep: u32,
    /// Number of small reads until the next check for the client.
    unseen: u32,
}

impl Habits {
    /// The client keeps several requests in flight.
    pub fn keeps_several(&mut self) {
        self.deep = DEEP_REQUESTS;
    }

    /// Returns true if the next waiting read is one for the workers.
    pub fn is_for_workers(&mut self) -> bool {
        let is_deep = self.deep > 0;
        self.deep = self.deep.saturating_sub(1);
        is_deep
    }

    /// Fails if the client has disconnected. Asks the system before a large read, and before one in
    /// [`LOOK_REQUESTS`] small ones. Otherwise it relies on the known state.
    pub fn look_for_client(
        &mut self,
        connection: &Connection,
        is_large: bool,
    ) -> Result<(), Disconnected> {
        self.unseen = self.unseen.saturating_sub(1);
        let is_down = match is_large || self.unseen == 0 {
            true => {
                self.unseen = LOOK_REQUESTS;
                connection.look_for_client()
            }
            false => connection.is_down(),
        };
        if is_down { Err(Disconnected) } else { Ok(()) }
    }
}
