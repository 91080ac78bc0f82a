//! Listens, accepts and stops. The program starts one server per address.
//!
//! Invariant: every connection has a permit, which its thread returns. TCP is served on loopback
//! only, because there is no TLS here.

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
use connections::{Acceptor, Permits, Pool, Stream, Threads};
use listener::Listener;
pub use options::ServerOptions;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Period at which connections are looked for that came meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// A listening socket and its exports. It accepts nothing before [`Server::start`].
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

struct Shared {
    exports: Arc<dyn Exports>,
    options: ServerOptions,
    counters: Arc<Counters>,
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    permits: Arc<Permits>,
    threads: Arc<Threads>,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<Shared>,
    acceptor: Acceptor,
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
                permits: Permits::new(options.connections_max),
                threads: Arc::default(),
                exports,
                options,
                counters: Arc::default(),
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
        let tcp_address = self.tcp_address();
        let (shared, permits) = (self.shared.clone(), self.shared.permits.clone());
        let listener = self.listener.until(self.shared.options.vanished_limit);
        let connect = move |stream| shared.connect(stream);
        let acceptor = Acceptor::start("nbd-accept", listener, permits, connect)
            .map_err(ServerError::io("start to accept"))?;
        Ok(ServerHandle {
            shared: self.shared,
            acceptor,
            tcp_address,
        })
    }
}

impl Shared {
    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect(&self, stream: Arc<dyn Stream>) {
        self.counters.accepted.fetch_add(1, Relaxed);
        // The client sees the end after it has been counted.
        let Some(permit) = self.permits.take(stream.clone(), None) else {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        };
        let (number, connection) = (permit.number, permit.connection.clone());
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
            threads: self.threads.share(),
        };
        let thread = thread::Builder::new().name(format!("nbd-{number}"));
        // If no thread can be started, the closure is dropped, and the permit with it.
        let _ = thread.spawn(move || {
            // Returned last: without permits there are no sessions.
            let _permit = permit;
            let session = session;
            session.run();
        });
    }
}

impl ServerHandle {
    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot(self.shared.permits.count())
    }

    /// Returns the address of a TCP server.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp_address
    }

    /// Counts connections that use the export, or last asked for it.
    pub fn clients(&self, export: &str) -> usize {
        let permits = &self.shared.permits;
        permits.sum(|c| usize::from(c.has_claimed(export)))
    }

    /// Counts those of [`Self::clients`] whose client has not disconnected. The last changes of
    /// those that have may still be executed.
    pub fn clients_connected(&self, export: &str) -> usize {
        let permits = &self.shared.permits;
        permits.sum(|c| usize::from(c.has_claimed(export) && !c.is_abandoned()))
    }

    /// Closes the export's connections after the requests that have arrived are answered. Returns
    /// their number.
    ///
    /// Remove the export from its [`Exports`] first: then no client can still start to use it, and
    /// [`ServerHandle::clients`] falls to 0 when the last request is answered.
    pub fn close_export(&self, export: &str) -> usize {
        self.shared.permits.sum(|connection| {
            let is_meant = connection.has_claimed(export);
            if is_meant {
                connection.close();
            }
            usize::from(is_meant)
        })
    }

    /// Waits until the export has no connections, at most this long. Returns false if it has some.
    pub fn wait_for_none(&self, export: &str, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.close_export(export) > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.shared.permits.wait_for_one(left.min(LOOK_PERIOD));
        }
        true
    }

    /// Ends the export's connections now. Changes that have arrived are still executed.
    pub fn drop_export(&self, export: &str) {
        self.shared.permits.sum(|connection| {
            if connection.has_claimed(export) {
                connection.drop_now();
            }
            0
        });
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
        let shared = &self.shared;
        !self.acceptor.stop() || shared.permits.end_all(shared.options.stop_limit)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
