//! Network block devices: serves any [`volume::Volume`] to NBD clients.
//!
//! Invariant: bytes from the network never panic, never allocate more than the limits say and
//! never reach another connection; the volume behind is always wrapped in [`volume::Checked`].
//! The program calls [`Server`]; nothing here knows deduplication.
//!
//! [`wire`] is pure layout, `negotiation` and `command` are pure decisions over it, `session`,
//! `workers` and `server` move the bytes.
#![forbid(unsafe_code)]

mod buffers;
mod command;
mod connection;
mod errno;
mod error;
mod exports;
pub mod fuzzing;
mod memory;
mod negotiation;
mod server;
mod session;
mod stats;
mod stream;
#[cfg(test)]
mod test_client;
#[cfg(test)]
mod test_volume;
pub mod wire;
mod workers;
mod writer;

pub use error::ServerError;
pub use exports::{ExportEntry, Exports, FixedExports};
pub use server::{Server, ServerHandle, ServerOptions};
pub use stats::{LATENCY_BUCKETS, Stats};

/// Largest read or write, bytes; what clients may assume without asking.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
