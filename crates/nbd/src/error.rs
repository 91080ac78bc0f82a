//! Defines the errors at the start of a server. The program shows them.
//!
//! Invariant: a kind exists only where the user has to act differently.

use connections::ListenError;
use std::net::SocketAddr;

/// Reason why [`crate::Server`] did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is reachable from other machines, and this server has no TLS.
    #[error("cannot serve NBD on {0}: there is no TLS; use a unix socket or a loopback address")]
    NotLoopback(SocketAddr),
    /// The socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}
