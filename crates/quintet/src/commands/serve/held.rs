//! `serve`: holds the pool open for writing, serves it, and runs commands for others.
//!
//! Invariant: commands find the control socket only while the lock is held; the order of the end is:
//! no new clients, commands stop, requests are answered, what was written goes into containers, the
//! pool is closed. Nothing that is left behind, after any end, keeps the next one from starting.

use super::destager::Destager;
use super::exports::HeldExports;
use super::sockets::start_nbd;
use super::{announce, signals, wait};
use super::{defragger, reclaimer, verifier};
use crate::cli::{ReplicaArgs, ServeHeldArgs};
use crate::commands::backup::REGION_BYTES;
use crate::commands::invocation::Invocation;
use crate::commands::lending::ClientCommands;
use crate::commands::mount::{self, Mount, Pools, Settings};
use crate::commands::snapshot_choice::SnapshotFilter;
use crate::console::Console;
use crate::control::ControlSocket;
use crate::exit::Exit;
use crate::held::{Held, JOURNAL_BYTES_DEFAULT, Live, Replica};
use crate::memory_plan::MemoryPlan;
use crate::metrics::Endpoint;
use crate::settings::Shares;
use crate::systemd::{Notifier, watchdog_interval};
use anyhow::{Context, bail};
use device::DeviceQueue;
use media::SystemTicks;
use nbd::Exports;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use volumes::{Step, Volumes};

/// Time that commands get to stop, and users of files to close them.
const COMMANDS_LIMIT: Duration = Duration::from_secs(20);
/// Sizes that a journal can have.
const JOURNAL_BYTES: RangeInclusive<u64> = 2 << 20..=64 << 30;
/// Bytes of a step of the last checkpoint: the service manager hears of each.
const STEP_BYTES: u64 = 64 << 20;

pub(super) fn run(invocation: &Invocation, args: &ServeHeldArgs) -> anyhow::Result<Exit> {
    let settings = args.mount.as_ref().map(|mountpoint| Settings {
        mountpoint: mountpoint.clone(),
        allow_other: args.allow_other,
        enforce: true,
        filter: SnapshotFilter::default(),
    });
    hold(invocation, args, settings.as_ref(), false)
}

/// Until the mount is unmounted: what is open may take its time then, nothing else is served.
pub(super) fn run_for_mount(invocation: &Invocation, settings: &Settings) -> anyhow::Result<Exit> {
    let args = ServeHeldArgs {
        nbd_socket: None,
        nbd_listen: None,
        mount: None,
        allow_other: false,
        metrics: None,
        journal: JOURNAL_BYTES_DEFAULT,
        connections: 0,
        no_trace: false,
        qos: Vec::new(),
        replica: ReplicaArgs::default(),
    };
    hold(invocation, &args, Some(settings), true)
}

/// `to_the_end`: ends with the mount, and not before.
fn hold(
    invocation: &Invocation,
    args: &ServeHeldArgs,
    mount: Option<&Settings>,
    to_the_end: bool,
) -> anyhow::Result<Exit> {
    // Memory that this process asks for must not wait for pages of file systems that are on its own
    // disks. Only root may say so; others have no such file systems.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let environment = &invocation.caller.environment;
    let console = &invocation.console;
    let notifier = Arc::new(Notifier::of(environment)?);
    if !JOURNAL_BYTES.contains(&args.journal) {
        bail!("--journal: must be 2M to 64G");
    }
    let shares = Shares::default().with(&args.qos)?;
    let device = DeviceQueue::new(shares.plan, Arc::new(SystemTicks::default()))?;
    let device = Arc::new(device);
    notifier.say("STATUS=opening the pool");
    let memory = MemoryPlan::of(invocation.settings.memory_bytes, args.journal);
    let pool = invocation.open_behind(&device, &memory)?;
    // Who comes from here on waits, instead of finding the pool locked.
    let socket = ControlSocket::bind(invocation.settings.pool()?).context("control socket")?;
    notifier.say("STATUS=replaying the journal");
    let volumes = invocation.volumes_of(pool, &memory, args.journal)?;
    volumes.trace(!args.no_trace);
    let path = std::path::absolute(invocation.settings.pool()?)?;
    let held = Held::new(path, volumes, device, shares, memory);
    // It may be away for a while: volumes are served without it.
    match Replica::of(invocation, &args.replica) {
        Ok(Some(replica)) => held.scrub.repair_from(replica),
        Ok(None) => {}
        Err(e) => console.warn(format_args!(
            "--replica: {e:#}: scrubs of this server repair nothing from it"
        )),
    }
    let held = Arc::new(held);
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
    let lane = invocation.lane(None, REGION_BYTES)?;
    let verifier = verifier::start(invocation, &held, lane)?;
    let defragger = defragger::start(invocation, &held, lane)?;
    let reclaimer = reclaimer::start(invocation, &held, lane)?;
    let commands = ClientCommands {
        held: Arc::clone(&held),
    };
    let control = socket.serve(Arc::new(commands))?;
    let signals = signals()?;
    let stopping = (invocation.interrupt.clone(), signals.handle());
    let at_end = move || {
        if to_the_end {
            let (interrupt, signals) = stopping;
            interrupt.request();
            signals.close();
        }
    };
    let pools = Pools::held(&held);
    let mount = mount
        .map(|settings| Mount::start(invocation, settings, &pools, at_end))
        .transpose()?;
    if let Some(mount) = &mount {
        mount::announce(invocation, mount)?;
    }
    match to_the_end {
        true => console.note(mount::HOW_IT_ENDS),
        false => announce(invocation, &places, exports.names().iter())?,
    }
    notifier.say("READY=1\nSTATUS=serving");
    let watchdog = watchdog_interval(environment)?
        .map(|interval| Watchdog::start(&notifier, interval, exports))
        .transpose()?;
    wait(invocation, signals, &|| said(&held, control.clients()))?;
    notifier.say("STOPPING=1\nSTATUS=stopping");
    // First: writers may wait for it.
    drop(reclaimer);
    // Before commands that wait for its run hear of the end: the next server goes on with it.
    drop(defragger);
    if !control.stop(COMMANDS_LIMIT) {
        console.warn("some commands did not end in time");
    }
    let unmounted = mount.map(|mount| mount.end((!to_the_end).then_some(COMMANDS_LIMIT)));
    for server in held.take_servers() {
        if !server.stop() {
            console.warn("some requests did not end in time");
        }
    }
    drop((metrics, verifier, destager));
    let settled = settle(&held.volumes, &notifier, console);
    drop(watchdog);
    settled?;
    unmounted.transpose()?;
    Ok(Exit::Done)
}

/// Leaves nothing to replay. When that cannot be done, the journal has it.
fn settle(volumes: &Volumes, notifier: &Notifier, console: &Console) -> anyhow::Result<()> {
    // It costs heat only.
    let _ = volumes.store_trace();
    volumes.flush()?;
    loop {
        notifier.say("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=writing a last checkpoint");
        let step = volumes.step(STEP_BYTES);
        let step = step.context("the last checkpoint; the journal has what was written")?;
        if step == Step::Idle {
            break;
        }
    }
    for kept in volumes.kept_writes() {
        console.warn(format_args!("{kept}"));
    }
    volumes.close().context("the journal")
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
