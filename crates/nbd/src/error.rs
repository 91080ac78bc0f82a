//! Defines the errors at the start of a server. The program shows them.
//!
//! Invariant: a kind exists only where the user has to act differently.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum bytes of a Unix socket's path (`sun_path` without its end).
pub(crate) const SOCKET_PATH_MAX: usize = 107;

/// Reason why [`crate::Server`] did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is reachable from other machines, and this server has no TLS.
    #[error("cannot serve NBD on {0}: there is no TLS; use a unix socket or a loopback address")]
    NotLoopback(SocketAddr),
    /// Another running server uses this socket.
    #[error("another server listens on {}", .0.display())]
    SocketInUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// No Unix socket can have such a long path.
    #[error(
        "cannot listen on {}: the path has {} bytes, and that of a socket at most {SOCKET_PATH_MAX}; \
         choose a shorter one, such as below /run",
        .0.display(),
        .0.as_os_str().len()
    )]
    PathTooLong(PathBuf),
    /// The system refused an operation.
    #[error("cannot {doing}: {}", units::reason(source))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
