//! Serves any [`volume::Volume`] to NBD clients (network block devices).
//!
//! The program calls [`Server`]. [`wire`] contains layouts only, `negotiation` and `command`
//! contain decisions over them, `session`, `workers` and `server` move the bytes.
//!
//! Invariant: bytes from the network never cause a panic, never allocate more than the limits allow
//! and never reach another connection. Volumes are always wrapped in [`volume::Checked`]. Nothing
//! here knows about deduplication.
#![forbid(unsafe_code)]

pub mod client;
mod command;
mod errno;
mod error;
mod exports;
pub mod fuzzing;
mod negotiation;
mod server;
mod session;
#[cfg(test)]
mod test_client;
#[cfg(test)]
mod test_volume;
pub mod wire;
mod workers;

pub use connections::{ListenError, ServerHandle, ServerLimits, Stats};
pub use error::ServerError;
pub use exports::{ExportEntry, Exports, FixedExports};
pub use server::Server;

/// Largest read or write, bytes. Clients may assume it without asking.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
