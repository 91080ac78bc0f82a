//! `serve`: holds the pool open for writing, serves it, and runs commands for others.
//!
//! Invariant: commands find the control socket only while the lock is held; the order of the end is:
//! no new clients, commands stop, requests are answered, what was written goes into containers, the
//! pool is closed. Nothing that is left behind, after any end, keeps the next one from starting.

use super::destager::Destager;
use super::exports::HeldExports;
use super::sockets::start_nbd;
use super::{announce, wait};
use crate::cli::ServeHeldArgs;
use crate::commands::invocation::Invocation;
use crate::commands::lending::ClientCommands;
use crate::control::ControlSocket;
use crate::exit::Exit;
use crate::held::{Held, Live};
use crate::metrics::Endpoint;
use crate::systemd::{Notifier, watchdog_interval};
use anyhow::{Context, bail};
use nbd::Exports;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use store::{Step, Volumes};

/// Time that commands get to stop.
const COMMANDS_LIMIT: Duration = Duration::from_secs(20);
/// Sizes that a journal can have.
const JOURNAL_BYTES: RangeInclusive<u64> = 2 << 20..=64 << 30;
/// Bytes of a step of the last checkpoint: the service manager hears of each.
const STEP_BYTES: u64 = 64 << 20;

pub(super) fn run(invocation: &Invocation, args: &ServeHeldArgs) -> anyhow::Result<Exit> {
    let environment = &invocation.caller.environment;
    let console = &invocation.console;
    let notifier = Arc::new(Notifier::of(environment)?);
    if !JOURNAL_BYTES.contains(&args.journal) {
        bail!("--journal: must be 2M to 64G");
    }
    notifier.say("STATUS=opening the pool");
    let pool = invocation.open_for_volumes()?;
    // Who comes from here on waits, instead of finding the pool locked.
    let socket = ControlSocket::bind(invocation.settings.pool()?).context("control socket")?;
    notifier.say("STATUS=replaying the journal");
    let volumes = invocation.volumes_of(pool, args.journal)?;
    let held = Arc::new(Held::new(volumes));
    let zone = invocation.zone.clone();
    let exports = Arc::new(HeldExports::new(Arc::clone(&held), zone));
    let clients: Arc<dyn Exports> = exports.clone();
    let places = start_nbd(invocation, args, &held, &clients)?;
    let metrics = args
        .metrics
        .map(|address| Endpoint::start(address, &held).context("--metrics"))
        .transpose()?;
    if let Some(metrics) = &metrics {
        console.note(format_args!(
            "metrics at http://{}/metrics",
            metrics.address()
        ));
    }
    let destager = Destager::start(&held, console)?;
    let commands = ClientCommands {
        held: Arc::clone(&held),
    };
    let control = socket.serve(Arc::new(commands))?;
    announce(invocation, &places, exports.names().iter())?;
    notifier.say("READY=1\nSTATUS=serving");
    let watchdog = watchdog_interval(environment)?
        .map(|interval| Watchdog::start(&notifier, interval, exports))
        .transpose()?;
    wait(invocation, &|| said(&held, control.clients()))?;
    notifier.say("STOPPING=1\nSTATUS=stopping");
    if !control.stop(COMMANDS_LIMIT) {
        console.warn("some commands did not end in time");
    }
    for server in held.take_servers() {
        if !server.stop() {
            console.warn("some requests did not end in time");
        }
    }
    drop((metrics, destager));
    let settled = settle(&held.volumes, &notifier);
    drop(watchdog);
    settled?;
    Ok(Exit::Done)
}

/// Leaves nothing to replay. When that cannot be done, the journal has it.
fn settle(volumes: &Volumes, notifier: &Notifier) -> anyhow::Result<()> {
    volumes.flush()?;
    loop {
        notifier.say("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=writing a last checkpoint");
        let step = volumes.step(STEP_BYTES);
        let step = step.context("the last checkpoint; the journal has what was written")?;
        if step == Step::Idle {
            return Ok(());
        }
    }
}

/// What SIGUSR1 is answered with.
fn said(held: &Held, commands: usize) -> String {
    let live = Live::of(held);
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{commands} commands",
        live.nbd, live.journal, live.checkpoints, live.cache
    )
}

/// Tells the service manager that this process is not stuck, as long as it is not: what every client
/// needs first, the list of exports, can be made.
struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn start(
        notifier: &Arc<Notifier>,
        interval: Duration,
        exports: Arc<HeldExports>,
    ) -> std::io::Result<Self> {
        let notifier = Arc::clone(notifier);
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    drop(exports.names());
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
