//! Makes listening sockets with their targets, and closes targets. The program starts one server
//! per address.
//!
//! Invariant: off loopback nothing is served without CHAP and a list of initiators.

mod options;
#[cfg(test)]
mod tests;

use crate::denials::Denials;
use crate::error::ServerError;
use crate::registry::{Entry, Registry, Scope};
use crate::scsi::unit::Properties;
use crate::session::Session;
use crate::targets::{EndedSession, TargetAccess, Targets};
use connections::{ListenError, Listener, MemoryPool, SessionContext, Stats};
use media::{Random, SystemRandom};
use options::COMMAND_BYTES_MAX;
pub use options::ServerOptions;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A listening socket and its targets. It accepts nothing before [`Server::start`].
pub struct Server {
    server: connections::SocketServer,
    shared: Arc<TargetServer>,
}

struct TargetServer {
    targets: Arc<dyn Targets>,
    options: ServerOptions,
    random: Arc<dyn Random>,
    registry: Arc<Registry>,
    /// Number of this server in the registry.
    number: u64,
    denials: Arc<Denials>,
    bursts: Arc<MemoryPool>,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    shared: Arc<TargetServer>,
    handle: connections::ServerHandle,
}

/// Closes targets and ends sessions of a server ([`ServerHandle::closer`]).
pub struct TargetCloser(Arc<TargetServer>);

impl Server {
    /// Listens on an address. Off loopback, [`ServerOptions::discovery`] needs CHAP and a list of
    /// initiators, and targets without both are neither shown nor served.
    pub fn bind(
        address: SocketAddr,
        targets: Arc<dyn Targets>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        check(address, &options)?;
        Ok(Self::new(Listener::bind_tcp(address)?, targets, options))
    }

    /// Serves a socket that another process listens on (socket activation).
    pub fn from_listener(
        listener: TcpListener,
        targets: Arc<dyn Targets>,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let address = listener.local_addr();
        let address = address.map_err(ListenError::io("get the address of the socket"))?;
        check(address, &options)?;
        Ok(Self::new(Listener::from_tcp(listener)?, targets, options))
    }

    fn new(listener: Listener, targets: Arc<dyn Targets>, options: ServerOptions) -> Self {
        let limits = options.limits;
        let bursts = MemoryPool::new(options.burst_pool_bytes(), limits.stall_limit);
        let shared = TargetServer {
            bursts: Arc::new(bursts.without_own()),
            registry: options.units.0.clone(),
            number: options.units.0.fresh_number(),
            targets,
            options,
            random: Arc::new(SystemRandom),
            denials: Arc::default(),
        };
        Self {
            server: connections::SocketServer::new(listener, limits, COMMAND_BYTES_MAX, true),
            shared: Arc::new(shared),
        }
    }

    /// Returns the address, with the actual port if 0 was requested.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.address()
    }

    /// Starts to accept on a separate thread.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let shared = self.shared.clone();
        let serve = move |context| {
            shared.session(context).run();
        };
        Ok(ServerHandle {
            handle: self.server.start("iscsi", serve)?,
            shared: self.shared,
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

impl TargetServer {
    fn session(&self, context: SessionContext) -> Session {
        let address = |address: Option<SocketAddr>| {
            address.map_or_else(String::new, |address| address.to_string())
        };
        let options = &self.options;
        Session {
            number: self.registry.fresh_number(),
            server: self.number,
            targets: self.targets.clone(),
            discovery: discovery(&*self.targets, options),
            random: self.random.clone(),
            registry: self.registry.clone(),
            is_remote: context.local.is_some_and(|local| !local.ip().is_loopback()),
            denials: self.denials.clone(),
            peer: address(context.peer),
            portals: options.portals.of(address(context.local)),
            idle_limit: options.idle_limit,
            units: Properties {
                block_bytes: options.block_bytes,
                write_cache: options.write_cache,
                portal_group: options.portals.group(),
            },
            bursts: self
                .bursts
                .share(context.number, context.connection.clone()),
            context,
        }
    }
}

/// Returns the present conditions of discovery.
fn discovery(targets: &dyn Targets, options: &ServerOptions) -> TargetAccess {
    let changed = targets.discovery();
    changed.unwrap_or_else(|| options.discovery.clone())
}

impl ServerHandle {
    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// Returns the address of the server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.handle.address()
    }

    /// Counts the sessions of this server that use the target.
    pub fn sessions(&self, target: &str) -> usize {
        self.shared.registry.count(target, self.shared.number)
    }

    /// Returns what closes targets and ends sessions, for use without this handle.
    pub fn closer(&self) -> TargetCloser {
        TargetCloser(self.shared.clone())
    }

    /// [`TargetCloser::close_target`].
    pub fn close_target(&self, target: &str) -> usize {
        self.closer().close_target(target)
    }

    /// Accepts no more, asks initiators to log out, lets commands that have arrived be answered,
    /// and closes every connection.
    ///
    /// Returns false if a command did not end in time (twice
    /// [`connections::ServerLimits::stop_limit`]). Its thread is left behind.
    pub fn stop(mut self) -> bool {
        self.stop_now()
    }

    fn stop_now(&mut self) -> bool {
        if !self.handle.stop_accepting() {
            return true;
        }
        let (registry, options) = (&self.shared.registry, &self.shared.options);
        let own = Scope::Server(self.shared.number);
        if registry.ask_to_leave(own, options.logout_limit) > 0 {
            registry.wait_for_none(own, options.logout_limit);
            // They had this time to take an answer.
            registry.drop_deaf(own, options.logout_limit);
        }
        self.handle.end_all()
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
            registry.wait_for_none(Scope::Confirmed(target), options.limits.stop_limit);
        }
        registry.forget(target);
        count
    }

    /// Ends the sessions of this server whose initiators may no longer use their target, or only
    /// with another proof: after [`Targets::access`] has changed. Returns them.
    ///
    /// When this returns, no command of theirs is executed any more, unless one takes longer than
    /// [`connections::ServerLimits::stop_limit`]. No login that began before gets in later.
    pub fn end_unadmitted(&self) -> Vec<EndedSession> {
        let TargetServer {
            targets, options, ..
        } = &*self.0;
        let discovery = discovery(&**targets, options);
        let is_admitted = |session: &Entry| match &session.names.target {
            Some(target) => targets.access(target).is_none_or(|a| session.is_of(&a)),
            None => session.is_of(&discovery),
        };
        let own = Scope::Server(self.0.number);
        let limit = options.limits.stop_limit;
        let ended = self.0.registry.end(own, |s| !is_admitted(s), limit);
        let session = |entry: Arc<Entry>| EndedSession {
            initiator: entry.names.initiator.clone(),
            target: entry.names.target.clone(),
        };
        ended.into_iter().map(session).collect()
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
