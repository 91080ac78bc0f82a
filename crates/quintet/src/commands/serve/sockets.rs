//! Where NBD clients come: a unix socket, a loopback address, and what the service manager opened.
//!
//! Invariant: a socket that is served is one that only this user, or this machine, reaches; the NBD
//! room refuses others. Called by `serve`.

use crate::cli::ServeHeldArgs;
use crate::commands::invocation::Invocation;
use anyhow::bail;
use nbd::{Exports, Server, ServerOptions};
use rustix::net::AddressFamily;
use server::held::Held;
use server::systemd::listening_sockets;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where clients connect, as they write it.
pub fn place(socket: Option<&Path>, address: Option<SocketAddr>) -> String {
    match (socket, address) {
        (Some(path), _) => format!("nbd+unix:///?socket={}", path.display()),
        (None, Some(address)) => format!("nbd://{address}"),
        (None, None) => String::new(),
    }
}

/// Serves wherever it was asked for; says where.
pub fn start_nbd(
    invocation: &Invocation,
    args: &ServeHeldArgs,
    held: &Held,
    exports: &Arc<dyn Exports>,
) -> anyhow::Result<Vec<String>> {
    let from_manager = listening_sockets(&invocation.caller.environment)?;
    let own = usize::from(args.nbd_socket.is_some()) + usize::from(args.nbd_listen.is_some());
    let sockets = own + from_manager.len();
    let options = ServerOptions {
        connections_max: args.connections.max(1).into(),
        pool_bytes: held.memory.requests_of_socket(sockets),
        ..ServerOptions::default()
    };
    let exports = || Arc::clone(exports);
    let mut places = Vec::new();
    let mut start = |server: Server, path: Option<&Path>| {
        let server = server.start()?;
        places.push(place(path, server.tcp_address()));
        held.add_server(server);
        anyhow::Ok(())
    };
    if let Some(path) = &args.nbd_socket {
        let server = Server::bind_unix(path, exports(), options.clone())?;
        start(server, Some(path))?;
    }
    if let Some(address) = args.nbd_listen {
        start(Server::bind_tcp(address, exports(), options.clone())?, None)?;
    }
    for socket in from_manager {
        let (server, path) = of_manager(socket, exports(), options.clone())?;
        start(server, path.as_deref())?;
    }
    Ok(places)
}

/// A server on a socket that somebody else listens on, and its path if it has one.
fn of_manager(
    socket: OwnedFd,
    exports: Arc<dyn Exports>,
    options: ServerOptions,
) -> anyhow::Result<(Server, Option<PathBuf>)> {
    match rustix::net::getsockname(&socket)?.address_family() {
        AddressFamily::UNIX => {
            let listener = UnixListener::from(socket);
            let path = listener.local_addr()?.as_pathname().map(Into::into);
            let server = Server::from_unix_listener(listener, exports, options)?;
            Ok((server, path))
        }
        AddressFamily::INET | AddressFamily::INET6 => {
            let server = Server::from_tcp_listener(socket.into(), exports, options)?;
            Ok((server, None))
        }
        _ => bail!("LISTEN_FDS: a socket that is neither of unix nor of TCP"),
    }
}
