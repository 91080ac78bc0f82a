//! Listens, accepts and stops. The program starts one server per address.
//!
//! Invariant: every connection has a permit, which its thread returns. Off loopback nothing is
//! served without CHAP and a list of initiators.

mod listener;
mod options;
#[cfg(test)]
mod tests;

use crate::denials::Denials;
use crate::error::ServerError;
use crate::registry::{Registry, Scope};
use crate::scsi::unit::Properties;
use crate::session::{Limits, Session};
use crate::stats::{Counters, Stats};
use crate::targets::Targets;
use connections::{Acceptor, Permits, Pool, Threads};
use listener::{Accepted, Listener};
use media::{Random, SystemRandom};
pub use options::ServerOptions;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// A listening socket and its targets. It accepts nothing before [`Server::start`].
pub struct Server {
    listener: Listener,
    front: Arc<Front>,
}

struct Front {
    targets: Arc<dyn Targets>,
    options: ServerOptions,
    random: Arc<dyn Random>,
    counters: Arc<Counters>,
    registry: Arc<Registry>,
    /// Number of this server in the registry.
    number: u64,
    denials: Arc<Denials>,
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    bursts: Arc<Pool>,
    threads: Arc<Threads>,
    permits: Arc<Permits>,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    front: Arc<Front>,
    acceptor: Acceptor,
    address: Option<SocketAddr>,
}

/// Closes targets of a server ([`ServerHandle::closer`]).
pub struct TargetCloser(Arc<Front>);

impl Server {
    /// Listens on an address. Off loopback, [`ServerOptions::discovery`] needs CHAP and a list of
    /// initiators, and targets without both are neither shown nor served.
    pub fn bind(
        address: SocketAddr,
        targets: Arc<dyn Targets>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        check(address, &options)?;
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(ServerError::io("listen on the address"))?;
        Self::from_listener(listener, targets, options)
    }

    /// Serves a socket that another process listens on (socket activation).
    pub fn from_listener(
        listener: TcpListener,
        targets: Arc<dyn Targets>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let address = listener.local_addr();
        let address = address.map_err(ServerError::io("get the address of the socket"))?;
        check(address, &options)?;
        let pool = || Arc::new(Pool::new(options.pool_bytes(), options.stall_limit));
        let bursts = Pool::new(options.burst_pool_bytes(), options.stall_limit);
        let front = Front {
            reads: pool(),
            changes: pool(),
            bursts: Arc::new(bursts.without_own()),
            threads: Arc::default(),
            permits: Permits::new(options.connections_max),
            registry: options.units.0.clone(),
            number: options.units.0.fresh_number(),
            targets,
            options,
            random: Arc::new(SystemRandom),
            counters: Arc::default(),
            denials: Arc::default(),
        };
        Ok(Self {
            listener: Listener::new(listener, front.options.vanished_limit)?,
            front: Arc::new(front),
        })
    }

    /// Returns the address, with the actual port if 0 was requested.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Starts to accept on a separate thread.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let address = self.address();
        let (front, permits) = (self.front.clone(), self.front.permits.clone());
        let connect = move |accepted| front.connect(accepted);
        let acceptor = Acceptor::start("iscsi-accept", self.listener, permits, connect)
            .map_err(ServerError::io("start to accept"))?;
        Ok(ServerHandle {
            front: self.front,
            acceptor,
            address,
        })
    }
}

fn check(address: SocketAddr, options: &ServerOptions) -> Result<(), ServerError> {
    if !matches!(options.block_bytes, 512 | 4096) {
        return Err(ServerError::BlockSize(options.block_bytes));
    }
    if !options.discovery.is_sound() {
        return Err(ServerError::WeakSecret);
    }
    if !address.ip().is_loopback() && !options.discovery.is_protected() {
        return Err(ServerError::NotProtected(address));
    }
    Ok(())
}

impl Front {
    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect(&self, accepted: Accepted) {
        self.counters.accepted.fetch_add(1, Relaxed);
        // The initiator sees the end after it has been counted.
        let address = Some(accepted.peer.ip());
        let Some(permit) = self.permits.take(accepted.stream.clone(), address) else {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        };
        let (number, connection) = (permit.number, permit.connection.clone());
        let options = &self.options;
        let session = Session {
            number: self.registry.fresh_number(),
            server: self.number,
            targets: self.targets.clone(),
            discovery: options.discovery.clone(),
            random: self.random.clone(),
            registry: self.registry.clone(),
            counters: self.counters.clone(),
            is_remote: !accepted.local.ip().is_loopback(),
            denials: self.denials.clone(),
            peer: accepted.peer.to_string(),
            portal: accepted.local.to_string(),
            limits: Limits {
                handshake: options.handshake_limit,
                send: options.send_limit,
                idle: options.idle_limit,
                reinstatement: options.stop_limit,
                units: Properties {
                    block_bytes: options.block_bytes,
                    write_cache: options.write_cache,
                },
            },
            reads: self.reads.share(number, connection.clone()),
            changes: self.changes.share(number, connection.clone()),
            bursts: self.bursts.share(number, connection.clone()),
            threads: self.threads.share(),
            connection,
        };
        let thread = thread::Builder::new().name(format!("iscsi-{number}"));
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
        self.front.counters.snapshot(self.front.permits.count())
    }

    /// Returns the address of the server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Counts the sessions of this server that use the target.
    pub fn sessions(&self, target: &str) -> usize {
        self.front.registry.count(target, self.front.number)
    }

    /// Returns what closes targets, for use without this handle.
    pub fn closer(&self) -> TargetCloser {
        TargetCloser(self.front.clone())
    }

    /// [`TargetCloser::close_target`].
    pub fn close_target(&self, target: &str) -> usize {
        self.closer().close_target(target)
    }

    /// Accepts no more, asks initiators to log out, lets commands that have arrived be answered,
    /// and closes every connection.
    ///
    /// Returns false if a command did not end in time (twice [`ServerOptions::stop_limit`]). Its
    /// thread is left behind.
    pub fn stop(mut self) -> bool {
        self.stop_now()
    }

    fn stop_now(&mut self) -> bool {
        if !self.acceptor.stop() {
            return true;
        }
        let (registry, options) = (&self.front.registry, &self.front.options);
        let own = Scope::Server(self.front.number);
        if registry.ask_to_leave(own, options.logout_limit) > 0 {
            registry.wait_for_none(own, options.logout_limit);
            // They had this time to take an answer.
            registry.drop_deaf(own, options.logout_limit);
        }
        self.front.permits.end_all(options.stop_limit)
    }
}

impl TargetCloser {
    /// Asks the target's initiators, of all servers that share its units, to log out, and ends
    /// their sessions after [`ServerOptions::logout_limit`]. Returns their number. Reservations of
    /// the target are forgotten.
    ///
    /// When this returns, no command of these sessions is executed any more: those that run have
    /// ended, and those that have arrived are dropped. No session opens the target meanwhile if
    /// [`Targets::open`] refuses it already.
    pub fn close_target(&self, target: &str) -> usize {
        let (registry, options) = (&self.0.registry, &self.0.options);
        let scope = Scope::Target(target);
        let count = registry.ask_to_leave(scope, options.logout_limit);
        if count > 0 && !registry.wait_for_none(scope, options.logout_limit) {
            registry.drop_now(scope);
            registry.close_units(target);
            registry.wait_for_none(Scope::Confirmed(target), options.stop_limit);
        }
        registry.forget(target);
        count
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
