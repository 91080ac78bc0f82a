//! `serve`: holds the pool open for writing, serves it, and runs commands for others.
//!
//! Invariant: commands find the control socket only while the lock is held; the order of the end is:
//! no new clients, commands stop, requests are answered, the pool is closed. Nothing that it leaves
//! behind after any end keeps the next one from starting.

use super::exports::HeldExports;
use super::{announce, place, wait};
use crate::cli::ServeHeldArgs;
use crate::commands::invocation::Invocation;
use crate::commands::lending::ClientCommands;
use crate::control::{Control, ControlSocket};
use crate::exit::Exit;
use crate::held::Held;
use crate::systemd::{Notifier, listening_sockets, watchdog_interval};
use anyhow::{Context, bail};
use nbd::{Exports, Server, ServerHandle, ServerOptions};
use rustix::net::AddressFamily;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use store::OpenMode;

/// Time that commands get to stop.
const COMMANDS_LIMIT: Duration = Duration::from_secs(20);

pub(super) fn run(invocation: &Invocation, args: &ServeHeldArgs) -> anyhow::Result<Exit> {
    let environment = &invocation.caller.environment;
    let notifier = Arc::new(Notifier::of(environment)?);
    notifier.say("STATUS=opening the pool");
    let pool = invocation.open_within(OpenMode::Write, invocation.settings.memory_bytes)?;
    // Who comes from here on waits, instead of finding the pool locked.
    let socket = ControlSocket::bind(invocation.settings.pool()?).context("control socket")?;
    let held = Arc::new(Held::new(pool));
    let zone = invocation.zone.clone();
    let exports = Arc::new(HeldExports::new(Arc::clone(&held), zone));
    let (servers, places) = start_nbd(invocation, args, &exports)?;
    let commands = ClientCommands {
        held: Arc::clone(&held),
    };
    let control = socket.serve(Arc::new(commands))?;
    announce(invocation, &places, exports.names().iter())?;
    notifier.say("READY=1\nSTATUS=serving");
    let alive = exports.clone();
    let watchdog = watchdog_interval(environment)?
        .map(|interval| Watchdog::start(&notifier, interval, move || drop(alive.names())))
        .transpose()?;
    wait(invocation, &|| said(&servers, &control))?;
    notifier.say("STOPPING=1\nSTATUS=stopping");
    if !control.stop(COMMANDS_LIMIT) {
        invocation.console.warn("some commands did not end in time");
    }
    for server in servers {
        if !server.stop() {
            invocation.console.warn("some requests did not end in time");
        }
    }
    drop(watchdog);
    Ok(Exit::Done)
}

/// NBD where the user said, and where the service manager listens already.
fn start_nbd(
    invocation: &Invocation,
    args: &ServeHeldArgs,
    exports: &Arc<HeldExports>,
) -> anyhow::Result<(Vec<ServerHandle>, Vec<String>)> {
    let options = ServerOptions {
        connections_max: args.connections.max(1).into(),
        ..ServerOptions::default()
    };
    let exports = || Arc::clone(exports) as Arc<dyn Exports>;
    let (mut servers, mut places) = (Vec::new(), Vec::new());
    let mut start = |server: Server, path: Option<&std::path::Path>| {
        let server = server.start()?;
        places.push(place(path, server.tcp_address()));
        servers.push(server);
        anyhow::Ok(())
    };
    if let Some(path) = &args.nbd_socket {
        start(
            Server::bind_unix(path, exports(), options.clone())?,
            Some(path),
        )?;
    }
    if let Some(address) = args.nbd_listen {
        start(Server::bind_tcp(address, exports(), options.clone())?, None)?;
    }
    for socket in listening_sockets(&invocation.caller.environment)? {
        let (server, path) = from_manager(socket, exports(), options.clone())?;
        start(server, path.as_deref())?;
    }
    Ok((servers, places))
}

/// A server on a socket that somebody else listens on, and its path if it has one.
fn from_manager(
    socket: OwnedFd,
    exports: Arc<dyn Exports>,
    options: ServerOptions,
) -> anyhow::Result<(Server, Option<std::path::PathBuf>)> {
    match rustix::net::getsockname(&socket)?.address_family() {
        AddressFamily::UNIX => {
            let listener = std::os::unix::net::UnixListener::from(socket);
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

/// What SIGUSR1 is answered with.
fn said(servers: &[ServerHandle], control: &Control) -> String {
    let stats = servers.iter().map(|server| format!("{:?}", server.stats()));
    let lines: Vec<String> = stats
        .chain([format!("{} commands", control.clients())])
        .collect();
    lines.join("\n")
}

/// Tells the service manager that this process is not stuck, as long as it is not.
struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// `probe` returns when nobody holds for ever what clients need.
    fn start(
        notifier: &Arc<Notifier>,
        interval: Duration,
        probe: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let notifier = Arc::clone(notifier);
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    probe();
                    notifier.say("WATCHDOG=1");
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
