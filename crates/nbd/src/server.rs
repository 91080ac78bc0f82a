//! Listens, accepts and stops. The program starts one server per address.
//!
//! Invariant: there are never more connections than permits. A permit is returned when its thread
//! ends, however it ends. TCP is served on loopback only, because there is no TLS here.

#[cfg(test)]
mod export_tests;
#[cfg(test)]
mod gone_tests;
#[cfg(test)]
mod hostile_tests;
mod listener;
mod options;
#[cfg(test)]
mod tests;

use crate::error::ServerError;
use crate::exports::Exports;
use crate::session::{Memory, Session};
use crate::stats::{Counters, Stats};
use connections::Connection;
use connections::Pool;
use connections::Stream;
use listener::Listener;
pub use options::ServerOptions;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A listening socket and its exports. It accepts nothing before [`Server::start`].
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

struct Shared {
    exports: Arc<dyn Exports>,
    options: ServerOptions,
    counters: Arc<Counters>,
    stopping: AtomicBool,
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Closing it wakes the acceptor.
    waker: Option<UnixStream>,
    tcp_address: Option<SocketAddr>,
}

impl Server {
    fn new(listener: Listener, exports: Arc<dyn Exports>, options: ServerOptions) -> Self {
        let pool = || Arc::new(Pool::new(options.pool_bytes(), options.stall_limit));
        Self {
            listener,
            shared: Arc::new(Shared {
                reads: pool(),
                changes: pool(),
                exports,
                options,
                counters: Arc::default(),
                stopping: AtomicBool::new(false),
                connections: Mutex::default(),
                ended: Condvar::new(),
            }),
        }
    }

    /// Listens on a unix socket that only this user can connect to. Replaces a socket that a dead
    /// server left.
    pub fn bind_unix(
        path: &Path,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::bind_unix(path)?, exports, options))
    }

    /// Listens on a loopback address; others are refused, because there is no TLS here.
    pub fn bind_tcp(
        address: SocketAddr,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::bind_tcp(address)?, exports, options))
    }

    /// Serves a unix socket that another process listens on (socket activation). It is not removed
    /// when the server stops.
    pub fn from_unix_listener(
        listener: UnixListener,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::from_unix(listener)?, exports, options))
    }

    /// Serves a TCP socket that another process listens on (socket activation), on loopback only.
    pub fn from_tcp_listener(
        listener: TcpListener,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::from_tcp(listener)?, exports, options))
    }

    /// Returns the address of a TCP server, with the actual port if 0 was requested.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.listener.tcp_address()
    }

    /// Starts to accept on a separate thread.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let pair = UnixStream::pair().map_err(ServerError::io("create an event descriptor"))?;
        let (waker, woken) = pair;
        let tcp_address = self.tcp_address();
        let shared = self.shared.clone();
        let acceptor = thread::Builder::new()
            .name("nbd-accept".to_owned())
            .spawn(move || accept(&self.listener, &woken, &self.shared))
            .map_err(ServerError::io("start a thread"))?;
        Ok(ServerHandle {
            shared,
            acceptor: Some(acceptor),
            waker: Some(waker),
            tcp_address,
        })
    }
}

/// Pause when the system has no more descriptors or threads.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn accept(listener: &Listener, woken: &UnixStream, shared: &Arc<Shared>) {
    let mut number = 0;
    while listener.wait(woken) && !shared.stopping.load(Relaxed) {
        match listener.accept(shared.options.vanished_limit) {
            Ok(Some(stream)) => {
                number += 1;
                shared.connect(number, stream);
            }
            Ok(None) => {}
            Err(_) => {
                let mut connections = shared.connections.lock();
                shared.ended.wait_for(&mut connections, ACCEPT_PAUSE);
            }
        }
    }
}

impl Shared {
    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect(self: &Arc<Self>, number: u64, stream: Arc<dyn Stream>) {
        self.counters.accepted.fetch_add(1, Relaxed);
        let mut connections = self.connections.lock();
        if connections.len() >= self.options.connections_max {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        }
        let connection = Arc::new(Connection::new(stream));
        connections.insert(number, connection.clone());
        drop(connections);
        self.counters.connections.fetch_add(1, Relaxed);
        let memory = Memory {
            reads: self.reads.share(number, connection.clone()),
            changes: self.changes.share(number, connection.clone()),
        };
        let session = Session {
            connection,
            exports: self.exports.clone(),
            counters: self.counters.clone(),
            handshake_limit: self.options.handshake_limit,
            send_limit: self.options.send_limit,
            memory,
        };
        let permit = Permit(self.clone(), number);
        let thread = thread::Builder::new().name(format!("nbd-{number}"));
        // If no thread can be started, the closure is dropped, and the permit with it.
        let _ = thread.spawn(move || {
            let _permit = permit;
            session.run();
        });
    }

    /// Waits until there are no connections, but not past `until`.
    fn wait_for_all(&self, until: Instant) -> bool {
        let mut connections = self.connections.lock();
        while !connections.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut connections, left);
        }
        true
    }
}

/// Permit for one connection.
struct Permit(Arc<Shared>, u64);

impl Drop for Permit {
    fn drop(&mut self) {
        let Self(shared, number) = self;
        if let Some(connection) = shared.connections.lock().remove(number) {
            // After a panic nothing else has closed it.
            connection.drop_now();
        }
        shared.counters.connections.fetch_sub(1, Relaxed);
        shared.ended.notify_all();
    }
}

impl ServerHandle {
    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Returns the address of a TCP server.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp_address
    }

    /// Counts connections that use the export, or last asked for it.
    pub fn clients(&self, export: &str) -> usize {
        let connections = self.shared.connections.lock();
        connections
            .values()
            .filter(|c| c.has_claimed(export))
            .count()
    }

    /// Counts those of [`Self::clients`] whose client has not disconnected. The last changes of
    /// those that have may still be executed.
    pub fn clients_connected(&self, export: &str) -> usize {
        let connections = self.shared.connections.lock();
        let using = connections.values().filter(|c| c.has_claimed(export));
        using.filter(|c| !c.is_abandoned()).count()
    }

    /// Closes the export's connections after the requests that have arrived are answered. Returns
    /// their number.
    ///
    /// Remove the export from its [`Exports`] first: then no client can still start to use it, and
    /// [`ServerHandle::clients`] falls to 0 when the last request is answered.
    pub fn close_export(&self, export: &str) -> usize {
        let connections = self.shared.connections.lock();
        let using = connections.values().filter(|c| c.has_claimed(export));
        using.map(|connection| connection.close()).count()
    }

    /// Accepts no more, lets requests that have arrived be answered, closes every connection, and
    /// removes the unix socket.
    ///
    /// Returns false if a request did not end in time (twice [`ServerOptions::stop_limit`]). Its
    /// thread is left behind.
    pub fn stop(mut self) -> bool {
        self.stop_now()
    }

    fn stop_now(&mut self) -> bool {
        let Some(acceptor) = self.acceptor.take() else {
            return true;
        };
        self.shared.stopping.store(true, Relaxed);
        drop(self.waker.take());
        let _ = acceptor.join();
        for connection in self.shared.connections.lock().values() {
            connection.close();
        }
        let limit = self.shared.options.stop_limit;
        if self.shared.wait_for_all(Instant::now() + limit) {
            return true;
        }
        for connection in self.shared.connections.lock().values() {
            connection.drop_now();
        }
        self.shared.wait_for_all(Instant::now() + limit)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
