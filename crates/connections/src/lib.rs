//! Provides the parts of a front end that serves clients over sockets: accepting, permits for
//! connections, streams, buffers, memory leases, the state of a connection.
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
mod memory;
mod permits;
mod stream;
mod threads;
mod writer;

pub use acceptor::{Acceptor, Listening, prepare_tcp};
pub use alarm::Alarm;
pub use buffers::{INPUT_BYTES, Input, Output, Payload};
pub use connection::{Connection, Gone};
pub use memory::{LOOK_PERIOD, Lease, OWN_BYTES, Pool, Queued, Share};
pub use permits::{Permit, Permits};
pub use stream::{Replay, Stream};
pub use threads::{IDLE_THREAD_LIMIT, ThreadPermit, ThreadShare, Threads};
pub use writer::Writer;
