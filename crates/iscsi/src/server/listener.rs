//! Accepts TCP connections. The server calls this.
//!
//! Invariant: accepting never waits: another process may share the socket and be faster.

use crate::error::ServerError;
use connections::{Listening, Stream, prepare_tcp};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// A socket to wait for and accept from.
pub(super) struct Listener {
    listener: TcpListener,
    vanished_limit: Duration,
}

/// A new connection.
pub(super) struct Accepted {
    pub(super) stream: Arc<dyn Stream>,
    /// Our address, as the initiator sees it.
    pub(super) local: SocketAddr,
    /// The initiator's address.
    pub(super) peer: SocketAddr,
}

impl Listener {
    /// An initiator that is silent for `vanished_limit` counts as vanished.
    pub(super) fn new(
        listener: TcpListener,
        vanished_limit: Duration,
    ) -> Result<Self, ServerError> {
        let ready = listener.set_nonblocking(true);
        ready.map_err(ServerError::io("set up the socket"))?;
        Ok(Self {
            listener,
            vanished_limit,
        })
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

impl Listening for Listener {
    type Accepted = Accepted;

    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn accept(&self) -> io::Result<Accepted> {
        let (stream, peer) = self.listener.accept()?;
        prepare_tcp(&stream, self.vanished_limit)?;
        let local = stream.local_addr()?;
        let stream = Arc::new(stream);
        Ok(Accepted {
            stream,
            local,
            peer,
        })
    }
}
