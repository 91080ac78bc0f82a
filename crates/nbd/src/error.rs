//! Why a server could not be started.
//!
//! Invariant: a kind exists only where the user has to do something else about it. The program
//! shows these.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why [`crate::Server`] did not start.
#[derive(Debug)]
pub enum ServerError {
    /// The address is reachable from other machines, and there is no TLS here.
    NotLoopback(SocketAddr),
    /// A live server has this socket.
    SocketInUse(PathBuf),
    /// Something that is not a socket has this path.
    NotASocket(PathBuf),
    /// The system refused.
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

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "refusing to serve NBD without TLS on {address}: \
                 use a unix socket or a loopback address"
            ),
            Self::SocketInUse(path) => {
                write!(f, "another server listens on {}", path.display())
            }
            Self::NotASocket(path) => {
                write!(f, "{} exists and is not a socket", path.display())
            }
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
