//! Makes listening sockets, and decides where plain NBD may be served. The program starts one
//! server per address.
//!
//! Invariant: TCP is served on loopback only, because there is no TLS here.

#[cfg(test)]
mod disconnected_tests;
#[cfg(test)]
mod export_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use crate::command::COST_BYTES_MAX;
use crate::error::ServerError;
use crate::exports::Exports;
use crate::session::Session;
use connections::{ListenError, Listener, ServerHandle, ServerLimits};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// A listening socket and its exports. It accepts nothing before [`Server::start`].
pub struct Server {
    server: connections::SocketServer,
    exports: Arc<dyn Exports>,
}

impl Server {
    fn new(listener: Listener, exports: Arc<dyn Exports>, limits: ServerLimits) -> Self {
        Self {
            server: connections::SocketServer::new(listener, limits, COST_BYTES_MAX, false),
            exports,
        }
    }

    /// Listens on a unix socket that only this user can connect to. Replaces a socket that a dead
    /// server left.
    pub fn bind_unix(
        path: &Path,
        exports: Arc<dyn Exports>,
        limits: ServerLimits,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::bind_unix(path)?, exports, limits))
    }

    /// Listens on a loopback address; others are refused, because there is no TLS here.
    pub fn bind_tcp(
        address: SocketAddr,
        exports: Arc<dyn Exports>,
        limits: ServerLimits,
    ) -> Result<Self, ServerError> {
        check(address)?;
        Ok(Self::new(Listener::bind_tcp(address)?, exports, limits))
    }

    /// Serves a unix socket that another process listens on (socket activation). It is not removed
    /// when the server stops.
    pub fn from_unix_listener(
        listener: UnixListener,
        exports: Arc<dyn Exports>,
        limits: ServerLimits,
    ) -> Result<Self, ServerError> {
        Ok(Self::new(Listener::from_unix(listener)?, exports, limits))
    }

    /// Serves a TCP socket that another process listens on (socket activation), on loopback only.
    pub fn from_tcp_listener(
        listener: TcpListener,
        exports: Arc<dyn Exports>,
        limits: ServerLimits,
    ) -> Result<Self, ServerError> {
        let address = listener.local_addr();
        check(address.map_err(ListenError::io("get the address of the socket"))?)?;
        Ok(Self::new(Listener::from_tcp(listener)?, exports, limits))
    }

    /// Returns the address of a TCP server, with the actual port if 0 was requested.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.server.address()
    }

    /// Starts to accept on a separate thread.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let exports = self.exports;
        let serve = move |context| {
            Session {
                context,
                exports: exports.clone(),
            }
            .run();
        };
        Ok(self.server.start("nbd", serve)?)
    }
}

fn check(address: SocketAddr) -> Result<(), ServerError> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(ServerError::NotLoopback(address)),
    }
}
