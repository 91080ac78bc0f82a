//! Provides what a front end that serves clients over sockets needs besides its protocol: listening
//! and accepting, permits for connections, streams, buffers, memory leases, workers, counters.
//!
//! The NBD and the iSCSI server call this. It knows no protocol.
//!
//! Invariant: a client costs bounded memory: what its requests need is leased before it is
//! allocated. A client that stalls while others wait for its memory is dropped.
#![forbid(unsafe_code)]

mod acceptor;
mod alarm;
mod buffers;
mod connection;
mod limits;
mod listener;
mod memory;
mod permits;
mod server;
mod session;
mod stats;
mod stream;
mod threads;
mod workers;
mod writer;

pub use acceptor::{Acceptor, Listening};
pub use alarm::Alarm;
pub use buffers::{INPUT_BYTES, Input, Output, Payload};
pub use connection::{Connection, Disconnected};
pub use limits::ServerLimits;
pub use listener::{ListenError, Listener};
pub use memory::{LOOK_PERIOD, Lease, MemoryPool, Queued, Share};
pub use server::{ServerHandle, SocketServer};
pub use session::{
    BATCH_BYTES, End, Habits, SESSION_OUTPUT_BYTES, SMALL_REPLY_BYTES, SessionContext,
    WORKER_OUTPUT_BYTES,
};
pub use stats::{KINDS_MAX, RequestKind, ServerCounters, Stats, Tally};
pub use stream::{ByteStream, Replay};
pub use threads::IDLE_THREAD_LIMIT;
pub use workers::{Lane, Service, WorkerRequest, Workers};
pub use writer::ReplyWriter;
