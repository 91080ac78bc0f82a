//! The server's end: accepts clients and runs their commands, each on its own threads. The
//! program's server starts this.
//!
//! Invariant: there are never more clients than permits. Stopping asks all commands to stop and
//! waits for them, within a limit. The socket is removed while the pool's lock is still held.

use super::address::{self, Place};
use super::commands::Commands;
use super::connection::{self, Connections};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause when the system has no free descriptors or threads.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
        let (waker, woken) = UnixStream::pair()?;
        let connections = Arc::new(Connections::default());
        let acceptor = {
            let connections = Arc::clone(&connections);
            std::thread::Builder::new()
                .name("control".to_owned())
                .spawn(move || accept(&self, &woken, &connections, &commands))?
        };
        Ok(Control {
            connections,
            acceptor: Some(acceptor),
            waker: Some(waker),
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A socket that stays refuses connections, and the next server replaces it.
        let _ = self.place.remove();
    }
}

fn accept(
    socket: &ControlSocket,
    woken: &UnixStream,
    connections: &Arc<Connections>,
    commands: &Arc<dyn Commands>,
) {
    loop {
        let mut fds = [
            PollFd::new(&socket.listener, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) if fds[1].revents().is_empty() => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return,
        }
        match socket.listener.accept() {
            Ok((stream, _)) => connection::serve(stream, connections, commands),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => connections.wait_for_one(ACCEPT_PAUSE),
        }
    }
}

/// A running control socket. Dropping it stops it without waiting for commands.
pub struct Control {
    connections: Arc<Connections>,
    acceptor: Option<JoinHandle<()>>,
    /// Closing this stream wakes the acceptor.
    waker: Option<UnixStream>,
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
        let Some(acceptor) = self.acceptor.take() else {
            return true;
        };
        drop(self.waker.take());
        let _ = acceptor.join();
        self.connections.stop();
        self.connections.wait_for_all(Instant::now() + limit)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop_now(Duration::ZERO);
    }
}
