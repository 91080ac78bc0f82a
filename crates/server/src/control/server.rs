//! The server's end: accepts clients and runs their commands, each on its own threads. The
//! program's server starts this.
//!
//! Invariant: there are never more clients than permits. Stopping asks all commands to stop and
//! waits for them, within a limit. The socket is removed while the pool's lock is still held.

use super::address::{self, Place};
use super::commands::Commands;
use super::connection::{self, Connections};
use connections::{Acceptor, Listening};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A bound socket. Clients can connect to it and wait until [`ControlSocket::serve`].
pub struct ControlSocket {
    listener: UnixListener,
    place: Place,
}

impl ControlSocket {
    /// Binds the socket. The caller must hold the pool's lock: an existing socket is taken for a
    /// dead server's and replaced.
    pub fn bind(pool: &Path) -> io::Result<Self> {
        let (place, listener) = address::listen(pool)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, place })
    }

    /// Accepts clients from now on, on its own thread.
    pub fn serve(self, commands: Arc<dyn Commands>) -> io::Result<Control> {
        let connections = Arc::new(Connections::default());
        let (waited, served) = (Arc::clone(&connections), Arc::clone(&connections));
        let pause = move |limit| waited.wait_for_one(limit);
        let connect = move |stream| connection::serve(stream, &served, &commands);
        Ok(Control {
            connections,
            acceptor: Acceptor::start("control", self, pause, connect)?,
        })
    }
}

impl Listening for ControlSocket {
    type Accepted = UnixStream;

    fn socket(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept()?.0)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A socket that stays refuses connections, and the next server replaces it.
        let _ = self.place.remove();
    }
}

/// A running control socket. Dropping it stops it without waiting for commands.
pub struct Control {
    connections: Arc<Connections>,
    acceptor: Acceptor,
}

impl Control {
    /// Returns the number of clients without leases.
    pub fn clients(&self) -> usize {
        self.connections.count()
    }

    /// Accepts no more clients, asks all commands to stop and waits for them. Returns false if some
    /// did not end within `limit`.
    pub fn stop(mut self, limit: Duration) -> bool {
        self.stop_now(limit)
    }

    fn stop_now(&mut self, limit: Duration) -> bool {
        if !self.acceptor.stop() {
            return true;
        }
        self.connections.stop();
        self.connections.wait_for_all(Instant::now() + limit)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop_now(Duration::ZERO);
    }
}
