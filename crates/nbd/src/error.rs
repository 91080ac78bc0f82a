//! Why a server could not be started.
//!
//! Invariant: a kind exists only where the user has to do something else about it. The program
//! shows these.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why [`crate::Server`] did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is reachable from other machines, and there is no TLS here.
    #[error("refusing to serve NBD without TLS on {0}: use a unix socket or a loopback address")]
    NotLoopback(SocketAddr),
    /// A live server has this socket.
    #[error("another server listens on {}", .0.display())]
    SocketInUse(PathBuf),
    /// Something that is not a socket has this path.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
