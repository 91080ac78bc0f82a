//! Starts the NBD and iSCSI servers of a server: on a Unix socket, on addresses, and on sockets of
//! the service manager. `serve` calls this.
//!
//! Invariant: only this user or this machine can reach a served NBD socket. An iSCSI address that
//! other machines can reach is served only if all initiators must prove who they are and are named.
//! The crates `nbd` and `iscsi` refuse others.

use crate::exports::ServerExports;
use crate::program::Program;
use crate::state::ServerState;
use crate::systemd::{ServiceError, listening_sockets};
use crate::targets::{BLOCK_BYTES, Disks, ServerTargets};
use iscsi_access::{RulesInForce, Unprotected};
use nbd::{Exports, Server, ServerError, ServerLimits};
use rustix::net::AddressFamily;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal::environment::Environment;

/// Sockets for clients of volumes and images.
pub struct ClientSockets<'a> {
    /// Path of a Unix socket.
    pub socket: Option<&'a Path>,
    /// A loopback address.
    pub listen: Option<SocketAddr>,
    /// An address for iSCSI initiators.
    pub iscsi: Option<SocketAddr>,
    /// Addresses that iSCSI initiators learn from discovery.
    pub portals: iscsi::Portals,
    /// Whether iSCSI writes may be acknowledged before they are durable.
    pub iscsi_write_cache: bool,
    /// The initiators that may use each iSCSI target.
    pub rules: Arc<RulesInForce>,
    /// Maximum number of connections of each socket.
    pub connections: u16,
}

/// Name of sockets of the service manager for iSCSI initiators; all others are for NBD clients.
const ISCSI_NAME: &str = "iscsi";

/// Error of starting a server.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The service manager passed a socket of another family.
    #[error(
        "invalid LISTEN_FDS: a socket is neither a unix socket nor a TCP socket, or it is named \
         iscsi and is no TCP socket"
    )]
    Family,
    /// A variable of the service manager is invalid.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A socket cannot be served.
    #[error(transparent)]
    Nbd(#[from] ServerError),
    /// An address cannot be served.
    #[error(transparent)]
    Iscsi(#[from] iscsi::ServerError),
    /// Other machines can reach an address, and some rules do not protect it.
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Returns the NBD URI for clients.
pub fn place(socket: Option<&Path>, address: Option<SocketAddr>) -> String {
    match (socket, address) {
        (Some(path), _) => format!("nbd+unix:///?socket={}", path.display()),
        (None, Some(address)) => format!("nbd://{address}"),
        (None, None) => String::new(),
    }
}

/// Starts all requested servers. Returns their URIs. Denied logins are reported to `program`.
pub fn start_servers(
    environment: &Environment,
    wanted: &ClientSockets<'_>,
    state: &ServerState,
    exports: &Arc<ServerExports>,
    program: &Arc<dyn Program>,
) -> Result<Vec<String>, SocketError> {
    let from_manager = listening_sockets(environment)?;
    let own = [
        wanted.socket.is_some(),
        wanted.listen.is_some(),
        wanted.iscsi.is_some(),
    ];
    let own: usize = own.into_iter().map(usize::from).sum();
    let sockets = own + from_manager.len();
    let limits = ServerLimits {
        connections_max: wanted.connections.max(1).into(),
        pool_bytes: state.memory.requests_of_socket(sockets),
        ..ServerLimits::default()
    };
    let for_initiators: Arc<dyn Disks> = Arc::new(exports.for_initiators());
    let exports = || -> Arc<dyn Exports> { exports.clone() };
    let (for_iscsi, for_nbd): (Vec<_>, Vec<_>) = from_manager
        .into_iter()
        .partition(|passed| passed.name == ISCSI_NAME);
    let mut places = Vec::new();
    let targets = || {
        let rules = Arc::clone(&wanted.rules);
        let program = Arc::clone(program);
        Arc::new(ServerTargets::new(
            Arc::clone(&for_initiators),
            rules,
            program,
        ))
    };
    // The sockets offer the same disks.
    let units = iscsi::SharedUnits::default();
    let target_options = || iscsi::ServerOptions {
        units: units.clone(),
        portals: wanted.portals.clone(),
        discovery: wanted.rules.now().discovery().clone(),
        block_bytes: BLOCK_BYTES,
        write_cache: wanted.iscsi_write_cache,
        limits,
        ..iscsi::ServerOptions::default()
    };
    let mut start = |server: iscsi::Server| {
        let server = server.start()?;
        places.extend(server.address().map(|address| format!("iscsi://{address}")));
        state.clients.add_iscsi(server);
        Ok::<_, iscsi::ServerError>(())
    };
    if let Some(address) = wanted.iscsi {
        wanted.rules.now().check(address)?;
        start(iscsi::Server::bind(address, targets(), target_options())?)?;
    }
    for passed in for_iscsi {
        let listener = tcp_of_manager(passed.socket)?;
        wanted.rules.now().check(listener.local_addr()?)?;
        start(iscsi::Server::from_listener(
            listener,
            targets(),
            target_options(),
        )?)?;
    }
    let mut start = |server: Server, path: Option<&Path>| {
        let server = server.start()?;
        places.push(place(path, server.address()));
        state.clients.add_nbd(server);
        Ok::<_, ServerError>(())
    };
    if let Some(path) = wanted.socket {
        let server = Server::bind_unix(path, exports(), limits)?;
        start(server, Some(path))?;
    }
    if let Some(address) = wanted.listen {
        start(Server::bind_tcp(address, exports(), limits)?, None)?;
    }
    for passed in for_nbd {
        let (server, path) = of_manager(passed.socket, exports(), limits)?;
        start(server, path.as_deref())?;
    }
    Ok(places)
}

/// Returns a TCP socket of the service manager.
fn tcp_of_manager(socket: OwnedFd) -> Result<TcpListener, SocketError> {
    let name = rustix::net::getsockname(&socket).map_err(io::Error::from)?;
    match name.address_family() {
        AddressFamily::INET | AddressFamily::INET6 => Ok(TcpListener::from(socket)),
        _ => Err(SocketError::Family),
    }
}

/// Makes an NBD server on a socket of the service manager. Returns its path too, if it has one.
fn of_manager(
    socket: OwnedFd,
    exports: Arc<dyn Exports>,
    limits: ServerLimits,
) -> Result<(Server, Option<PathBuf>), SocketError> {
    let name = rustix::net::getsockname(&socket).map_err(io::Error::from)?;
    match name.address_family() {
        AddressFamily::UNIX => {
            let listener = UnixListener::from(socket);
            let path = listener.local_addr()?.as_pathname().map(Into::into);
            let server = Server::from_unix_listener(listener, exports, limits)?;
            Ok((server, path))
        }
        AddressFamily::INET | AddressFamily::INET6 => {
            let server = Server::from_tcp_listener(socket.into(), exports, limits)?;
            Ok((server, None))
        }
        _ => Err(SocketError::Family),
    }
}
