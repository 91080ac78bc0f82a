//! Listens, accepts and stops.
//!
//! Invariant: there are never more connections than permits; a permit is given back when its
//! thread ends, however it ends; TCP is served on loopback only, as there is no TLS here. The
//! program starts one server per address.

mod listener;
#[cfg(test)]
mod tests;

use crate::error::ServerError;
use crate::exports::Exports;
use crate::session::Session;
use crate::stats::{Counters, Stats};
use crate::stream::Stream;
use listener::Listener;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Connections at the same time; further ones are closed at once.
    pub connections_max: usize,
    /// Time from the greeting to the start of transmission.
    pub handshake_limit: Duration,
    /// Time that a client may leave a reply unread before it is dropped. Generous, because a
    /// paused machine looks the same; it costs only this client's own memory.
    pub send_limit: Duration,
    /// Time that [`ServerHandle::stop`] gives requests under way.
    pub stop_limit: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            connections_max: 128,
            handshake_limit: Duration::from_secs(30),
            send_limit: Duration::from_secs(300),
            stop_limit: Duration::from_secs(10),
        }
    }
}

/// A listening socket with something to serve; nothing is accepted before [`Server::start`].
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

struct Shared {
    exports: Arc<dyn Exports>,
    options: ServerOptions,
    counters: Arc<Counters>,
    stopping: Arc<AtomicBool>,
    connections: Mutex<HashMap<u64, Arc<dyn Stream>>>,
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
        Self {
            listener,
            shared: Arc::new(Shared {
                exports,
                options,
                counters: Arc::default(),
                stopping: Arc::default(),
                connections: Mutex::default(),
                ended: Condvar::new(),
            }),
        }
    }

    /// Listens on a unix socket that only this user can connect to. A socket left by a dead
    /// server is replaced.
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

    /// Serves a unix socket that somebody else listens on (socket activation); it is left as it
    /// is when the server stops.
    pub fn from_unix_listener(
        listener: UnixListener,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::from_unix(listener)?, exports, options))
    }

    /// Serves a TCP socket that somebody else listens on (socket activation), on loopback only.
    pub fn from_tcp_listener(
        listener: TcpListener,
        exports: Arc<dyn Exports>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::from_tcp(listener)?, exports, options))
    }

    /// Where a TCP server listens; tells the port if it was 0.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.listener.tcp_address()
    }

    /// Starts to accept, on a thread of its own.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let pair = UnixStream::pair().map_err(ServerError::io("make a waker"))?;
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

/// How long to rest when the system has no more descriptors or threads.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn accept(listener: &Listener, woken: &UnixStream, shared: &Arc<Shared>) {
    let mut number = 0;
    while listener.wait(woken) && !shared.stopping.load(Relaxed) {
        match listener.accept() {
            Ok(Some(stream)) => {
                number += 1;
                shared.connect(number, stream);
            }
            Ok(None) => {}
            Err(_) => {
                let ended = shared.lock();
                let _ = shared.ended.wait_timeout(ended, ACCEPT_PAUSE);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn Stream>>> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect(self: &Arc<Self>, number: u64, stream: Arc<dyn Stream>) {
        self.counters.accepted.fetch_add(1, Relaxed);
        let mut connections = self.lock();
        if connections.len() >= self.options.connections_max {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        }
        connections.insert(number, stream.clone());
        drop(connections);
        self.counters.connections.fetch_add(1, Relaxed);
        let session = Session {
            stream,
            exports: self.exports.clone(),
            counters: self.counters.clone(),
            handshake_limit: self.options.handshake_limit,
            send_limit: self.options.send_limit,
            stopping: self.stopping.clone(),
        };
        let permit = Permit(self.clone(), number);
        let thread = thread::Builder::new().name(format!("nbd-{number}"));
        // If no thread can be had, the closure is dropped and the permit with it.
        let _ = thread.spawn(move || {
            let _permit = permit;
            session.run();
        });
    }

    /// Waits until there are no connections, but not past `until`.
    fn wait_for_all(&self, until: Instant) -> bool {
        let mut connections = self.lock();
        while !connections.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.ended.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The right to be connected.
struct Permit(Arc<Shared>, u64);

impl Drop for Permit {
    fn drop(&mut self) {
        let Self(shared, number) = self;
        if let Some(stream) = shared.lock().remove(number) {
            // After a panic nobody else did.
            stream.shutdown();
        }
        shared.counters.connections.fetch_sub(1, Relaxed);
        shared.ended.notify_all();
    }
}

impl ServerHandle {
    /// Numbers since the start.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Where a TCP server listens.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp_address
    }

    /// Accepts no more, lets requests that arrived be answered, closes every connection, and
    /// removes the unix socket. False if some request did not end in time (twice
    /// [`ServerOptions::stop_limit`]); its thread is left behind.
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
        for stream in self.shared.lock().values() {
            stream.shutdown_recv();
        }
        let limit = self.shared.options.stop_limit;
        if self.shared.wait_for_all(Instant::now() + limit) {
            return true;
        }
        for stream in self.shared.lock().values() {
            stream.shutdown();
        }
        self.shared.wait_for_all(Instant::now() + limit)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
