//! Listens, accepts and stops. Each front end starts one server per address.
//!
//! Invariant: every connection has a permit, which its thread returns.

use crate::acceptor::Acceptor;
use crate::connection::Connection;
use crate::limits::ServerLimits;
use crate::listener::{Accepted, ListenError, Listener};
use crate::memory::MemoryPool;
use crate::permits::Permits;
use crate::session::SessionContext;
use crate::stats::{ServerCounters, Stats};
use crate::threads::Threads;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Period at which connections are looked for that came meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// A listening socket. It accepts nothing before [`SocketServer::start`].
pub struct SocketServer {
    listener: Listener,
    shared: Arc<ServerParts>,
}

struct ServerParts {
    limits: ServerLimits,
    counters: Arc<ServerCounters>,
    reads: Arc<MemoryPool>,
    changes: Arc<MemoryPool>,
    permits: Arc<Permits>,
    threads: Arc<Threads>,
    /// The clients of one address keep those of others not out.
    is_fair: bool,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<ServerParts>,
    acceptor: Acceptor,
    address: Option<SocketAddr>,
}

impl SocketServer {
    /// Makes a server whose largest request needs `request_bytes` of a pool. `is_fair`: clients of
    /// one address do not keep those of other addresses out ([`Permits`]).
    pub fn new(
        listener: Listener,
        limits: ServerLimits,
        request_bytes: u64,
        is_fair: bool,
    ) -> Self {
        let bytes = limits.pool_bytes.max(request_bytes);
        let pool = || Arc::new(MemoryPool::new(bytes, limits.stall_limit));
        Self {
            listener,
            shared: Arc::new(ServerParts {
                counters: Arc::default(),
                reads: pool(),
                changes: pool(),
                permits: Permits::new(limits.connections_max),
                threads: Arc::default(),
                limits,
                is_fair,
            }),
        }
    }

    /// Returns the address of a TCP server, with the actual port if 0 was requested.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Starts to accept on a separate thread. `serve` serves one client, each on its own thread.
    /// Threads have the protocol's `name`.
    pub fn start(
        self,
        name: &'static str,
        serve: impl Fn(SessionContext) + Send + Sync + 'static,
    ) -> Result<ServerHandle, ListenError> {
        let address = self.address();
        let (shared, serve) = (self.shared.clone(), Arc::new(serve));
        let listener = self.listener.until(self.shared.limits.vanished_limit);
        let connect = move |accepted| shared.connect(name, accepted, &serve);
        let permits = self.shared.permits.clone();
        let pause = move |limit| permits.wait_for_one(limit);
        let acceptor = Acceptor::start(&format!("{name}-accept"), listener, pause, connect)
            .map_err(ListenError::io("start to accept"))?;
        Ok(ServerHandle {
            shared: self.shared,
            acceptor,
            address,
        })
    }
}

impl ServerParts {
    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect<F: Fn(SessionContext) + Send + Sync + 'static>(
        &self,
        name: &str,
        accepted: Accepted,
        serve: &Arc<F>,
    ) {
        self.counters.accepted.fetch_add(1, Relaxed);
        let address = accepted.peer.filter(|_| self.is_fair).map(|peer| peer.ip());
        // Dropped after the refusal is counted, as the client then sees the end.
        let stream = accepted.stream;
        let Some(permit) = self.permits.take(Arc::clone(&stream), address) else {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        };
        drop(stream);
        let (number, connection) = (permit.number, permit.connection.clone());
        let context = SessionContext {
            number,
            local: accepted.local,
            peer: accepted.peer,
            counters: self.counters.clone(),
            limits: self.limits,
            reads: self.reads.share(number, connection.clone()),
            changes: self.changes.share(number, connection.clone()),
            threads: self.threads.share(),
            connection,
        };
        let serve = serve.clone();
        let thread = thread::Builder::new().name(format!("{name}-{number}"));
        // If no thread can be started, the closure is dropped, and the permit with it.
        let _ = thread.spawn(move || {
            // Returned last: without permits there are no sessions.
            let _permit = permit;
            let serve = serve;
            serve(context);
        });
    }
}

impl ServerHandle {
    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot(self.shared.permits.count())
    }

    /// Returns the address of a TCP server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Counts connections that use the export, or last asked for it.
    pub fn clients(&self, export: &str) -> usize {
        self.count(|connection| connection.has_claimed(export))
    }

    /// Counts those of [`Self::clients`] whose client has not disconnected. The last changes of
    /// those that have may still be executed.
    pub fn clients_connected(&self, export: &str) -> usize {
        self.count(|connection| connection.has_claimed(export) && !connection.is_abandoned())
    }

    /// Closes the export's connections after the requests that have arrived are answered. Returns
    /// their number.
    ///
    /// Remove the export from the server's list first: then no client can still start to use it,
    /// and [`ServerHandle::clients`] falls to 0 when the last request is answered.
    pub fn close_export(&self, export: &str) -> usize {
        self.count(|connection| {
            let is_meant = connection.has_claimed(export);
            if is_meant {
                connection.close();
            }
            is_meant
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
        self.count(|connection| {
            let is_meant = connection.has_claimed(export);
            if is_meant {
                connection.drop_now();
            }
            is_meant
        });
    }

    fn count(&self, is_meant: impl Fn(&Connection) -> bool) -> usize {
        self.shared.permits.sum(|c| usize::from(is_meant(c)))
    }

    /// Accepts no more. Returns false if it had stopped before.
    pub fn stop_accepting(&mut self) -> bool {
        self.acceptor.stop()
    }

    /// Lets requests that have arrived be answered, and closes every connection. Returns false if a
    /// request did not end in time.
    pub fn end_all(&self) -> bool {
        self.shared.permits.end_all(self.shared.limits.stop_limit)
    }

    /// Accepts no more, lets requests that have arrived be answered, closes every connection, and
    /// removes the unix socket.
    ///
    /// Returns false if a request did not end in time (twice [`ServerLimits::stop_limit`]). Its
    /// thread is left behind.
    pub fn stop(mut self) -> bool {
        self.stop_now()
    }

    fn stop_now(&mut self) -> bool {
        !self.stop_accepting() || self.end_all()
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
