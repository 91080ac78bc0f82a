//! Listens, accepts and stops. The program starts one server per address.
//!
//! Invariant: there are never more connections than permits. A permit is returned when its thread
//! ends, however it ends. Off loopback nothing is served without CHAP and a list of initiators.

mod listener;
mod options;
#[cfg(test)]
mod tests;

use crate::error::ServerError;
use crate::registry::Registry;
use crate::scsi::unit::Properties;
use crate::session::{Limits, Session};
use crate::stats::{Counters, Stats};
use crate::targets::Targets;
use connections::{Connection, Pool};
use listener::{Accepted, Listener};
use media::{Random, SystemRandom};
pub use options::ServerOptions;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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
    stopping: AtomicBool,
    reads: Arc<Pool>,
    changes: Arc<Pool>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    front: Arc<Front>,
    acceptor: Option<JoinHandle<()>>,
    /// Closing it wakes the acceptor.
    waker: Option<UnixStream>,
    address: Option<SocketAddr>,
}

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
        let front = Front {
            reads: pool(),
            changes: pool(),
            targets,
            options,
            random: Arc::new(SystemRandom),
            counters: Arc::default(),
            registry: Arc::default(),
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
        };
        Ok(Self {
            listener: Listener::new(listener)?,
            front: Arc::new(front),
        })
    }

    /// Returns the address, with the actual port if 0 was requested.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// Starts to accept on a separate thread.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let pair = UnixStream::pair().map_err(ServerError::io("create an event descriptor"))?;
        let (waker, woken) = pair;
        let address = self.address();
        let front = self.front.clone();
        let acceptor = thread::Builder::new()
            .name("iscsi-accept".to_owned())
            .spawn(move || accept(&self.listener, &woken, &self.front))
            .map_err(ServerError::io("start a thread"))?;
        Ok(ServerHandle {
            front,
            acceptor: Some(acceptor),
            waker: Some(waker),
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

/// Pause when the system has no more descriptors or threads.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn accept(listener: &Listener, woken: &UnixStream, front: &Arc<Front>) {
    let mut number = 0;
    while listener.wait(woken) && !front.stopping.load(Relaxed) {
        match listener.accept(front.options.vanished_limit) {
            Ok(Some(accepted)) => {
                number += 1;
                front.connect(number, accepted);
            }
            Ok(None) => {}
            Err(_) => {
                let mut connections = front.connections.lock();
                front.ended.wait_for(&mut connections, ACCEPT_PAUSE);
            }
        }
    }
}

impl Front {
    /// Serves a new connection on its own thread, or closes it if there are too many.
    fn connect(self: &Arc<Self>, number: u64, accepted: Accepted) {
        self.counters.accepted.fetch_add(1, Relaxed);
        let mut connections = self.connections.lock();
        if connections.len() >= self.options.connections_max {
            self.counters.refused.fetch_add(1, Relaxed);
            return;
        }
        let connection = Arc::new(Connection::new(accepted.stream));
        connections.insert(number, connection.clone());
        drop(connections);
        self.counters.connections.fetch_add(1, Relaxed);
        let options = &self.options;
        let session = Session {
            number,
            targets: self.targets.clone(),
            discovery: options.discovery.clone(),
            random: self.random.clone(),
            registry: self.registry.clone(),
            counters: self.counters.clone(),
            is_remote: !accepted.local.ip().is_loopback(),
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
            connection,
        };
        let permit = Permit(self.clone(), number);
        let thread = thread::Builder::new().name(format!("iscsi-{number}"));
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
struct Permit(Arc<Front>, u64);

impl Drop for Permit {
    fn drop(&mut self) {
        let Self(front, number) = self;
        if let Some(connection) = front.connections.lock().remove(number) {
            // After a panic nothing else has closed it.
            connection.drop_now();
        }
        front.counters.connections.fetch_sub(1, Relaxed);
        front.ended.notify_all();
    }
}

impl ServerHandle {
    /// Returns the counts since the start.
    pub fn stats(&self) -> Stats {
        self.front.counters.snapshot()
    }

    /// Returns the address of the server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Counts the sessions that use the target.
    pub fn sessions(&self, target: &str) -> usize {
        self.front.registry.count(target)
    }

    /// Asks the target's initiators to log out, and ends their sessions after
    /// [`ServerOptions::logout_limit`], when the commands that have arrived are answered. Returns
    /// their number. Reservations of the target are forgotten.
    ///
    /// Remove the target from its [`Targets`] first: then no initiator can still start to use it,
    /// and [`ServerHandle::sessions`] falls to 0 when the last command is answered.
    pub fn close_target(&self, target: &str) -> usize {
        let registry = &self.front.registry;
        let limit = self.front.options.logout_limit;
        let count = registry.ask_to_leave(Some(target), limit);
        if count > 0 && !registry.wait_for_none(Some(target), limit) {
            registry.close(Some(target));
        }
        registry.forget(target);
        count
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
        let Some(acceptor) = self.acceptor.take() else {
            return true;
        };
        let front = &self.front;
        front.stopping.store(true, Relaxed);
        drop(self.waker.take());
        let _ = acceptor.join();
        if front
            .registry
            .ask_to_leave(None, front.options.logout_limit)
            > 0
        {
            front
                .registry
                .wait_for_none(None, front.options.logout_limit);
        }
        for connection in front.connections.lock().values() {
            connection.close();
        }
        let limit = front.options.stop_limit;
        if front.wait_for_all(Instant::now() + limit) {
            return true;
        }
        for connection in front.connections.lock().values() {
            connection.drop_now();
        }
        front.wait_for_all(Instant::now() + limit)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop_now();
    }
}
