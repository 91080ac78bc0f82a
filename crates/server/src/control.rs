//! The control socket: how a command reaches the server that has its pool open (decision 18). The
//! program's commands call [`ask`], the server calls [`ControlSocket`].
//!
//! Invariant: the socket lies in the pool's directory with mode 0600. It answers only while a
//! server lives and holds the pool's lock. The socket of a dead server refuses connections and is
//! replaced by the next holder of the lock. The server accepts requests of its own user and of root
//! only. A command that a server runs ends when its client ends.
//!
//! ```text
//! client                                      server
//! ask: arguments, variables, descriptors --> connection: a thread in the client's directory
//!      Wish (stop, report)               -->     runs Commands::run
//!      exit code                         <-- Answer::Ended
//!
//! Leases: reads the pool itself          --> grant_server: an I/O grant for each lease
//! ```

mod address;
mod client;
mod commands;
mod connection;
mod grant_server;
mod leases;
mod server;
#[cfg(test)]
mod tests;
mod view;
mod wire;

pub use address::sockets_are_in;
pub use client::{AskError, Asked, ask};
pub use commands::Commands;
pub use leases::{IN_A_GRANT_LIMIT, Leases};
pub use server::{Control, ControlSocket};
pub use view::View;
pub use wire::CommandRequest;
