//! The way from a command to the server that holds its pool (decision 18).
//!
//! Invariant: the socket lies in the pool's directory, mode 0600, and answers only while the server
//! lives and holds the pool's lock: what a dead one left refuses connections, and whoever holds the
//! lock replaces it. Only the server's own user and root are heard. A command that a server runs
//! ends when its client does. The program's commands call [`ask`], the server [`Control`].
//!
//! A client sends its arguments and lends its descriptors; the server runs the same command on the
//! pool that it has open, on a thread with the client's working directory, and says the exit code. A client
//! that opens the pool itself, to read, asks for turns at the device instead: [`Leases`].

mod address;
mod client;
mod commands;
mod connection;
mod leases;
mod lessor;
mod server;
#[cfg(test)]
mod tests;
mod view;
mod wire;

pub use client::{AskError, Asked, ask};
pub use commands::Commands;
pub use leases::{IN_A_TURN_LIMIT, Leases};
pub use server::{Control, ControlSocket};
pub use view::View;
pub use wire::Request;
