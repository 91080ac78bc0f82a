//! `serve` with the pool open for writing: serves it, and runs commands for clients. `serve` and
//! `mount` call this.
//!
//! Invariant: the control socket answers only while the pool's lock is held. Nothing that a server
//! leaves behind, however it ends, keeps the next one from starting.
//!
//! ```text
//! start: pool --> control socket (clients wait) --> volumes, journal replay --> NBD, metrics
//!        --> threads --> control --> mount --> READY
//! end:   gc and defragmentation --> commands stop --> unmount --> NBD requests are answered
//!        --> other threads --> last checkpoint (settle) --> the pool is closed
//! ```

use super::{announce, fast, signals, wait};
use crate::commands::backup::REGION_BYTES;
use crate::commands::defrag::unfinished;
use crate::commands::for_clients::ClientCommands;
use crate::commands::invocation::Invocation;
use crate::commands::mounting::{self, Settings};
use crate::commands::policy;
use crate::commands::program::OnConsole;
use crate::commands::replica::replica_of;
use anyhow::{Context, bail};
use browsing::choice::SnapshotFilter;
use command_line::ServeArgs;
use device::DeviceQueue;
use iscsi::Portals;
use iscsi_access::{AccessFile, RulesInForce, TargetRules};
use maintenance::DefragSource;
use media::SystemTicks;
use nbd::Exports;
use server::control::ControlSocket;
use server::exports::ServerExports;
use server::memory_plan::MemoryPlan;
use server::metrics::Endpoint;
use server::mount::Pools;
use server::program::Program;
use server::settings::Shares;
use server::sockets::{ClientSockets, start_servers};
use server::state::{JOURNAL_BYTES_DEFAULT, Live, PolicyInForce, ServerState};
use server::systemd::{Notifier, watchdog_interval};
use server::targets::{BLOCK_BYTES, has_target_name, has_whole_blocks};
use server::threads::{Background, settle};
use server::threads::{
    access, classifying, collector, defragger, destager, tiering, trimmer, verifier, watchdog,
};
use signal_hook::iterator::Signals;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use terminal::console::Console;
use terminal::exit::Exit;

/// Time limit for commands to stop and for files to be closed.
const COMMANDS_LIMIT: Duration = Duration::from_secs(20);
/// Allowed sizes of a journal.
const JOURNAL_BYTES: RangeInclusive<u64> = 2 << 20..=64 << 30;

pub(super) fn run(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Exit> {
    let settings = args.mount.as_ref().map(|mountpoint| Settings {
        mountpoint: mountpoint.clone(),
        over: args.over,
        allow_other: args.allow_other,
        enforce: true,
        filter: SnapshotFilter::default(),
    });
    hold(invocation, args, settings.as_ref(), false)
}

/// Serves until the mount is unmounted, and nothing else. Open files may take their time.
pub(super) fn run_for_mount(invocation: &Invocation, settings: &Settings) -> anyhow::Result<Exit> {
    let args = ServeArgs {
        journal: JOURNAL_BYTES_DEFAULT,
        ..ServeArgs::default()
    };
    hold(invocation, &args, Some(settings), true)
}

/// `to_the_end`: the server ends with the mount, and not before.
fn hold(
    invocation: &Invocation,
    args: &ServeArgs,
    mount: Option<&Settings>,
    to_the_end: bool,
) -> anyhow::Result<Exit> {
    // Memory allocations of this process must not wait for dirty pages of file systems on its own
    // volumes. Only root may set this; file systems of other users are not on such volumes.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let environment = &invocation.context.environment;
    let console = &invocation.console;
    let notifier = Arc::new(Notifier::of(environment)?);
    let (rules, shares, policy) = checked(invocation, args)?;
    let portals = Portals::new(&args.iscsi_portal).context("invalid --iscsi-portal")?;
    let device = DeviceQueue::new(shares.plan, Arc::new(SystemTicks::default()))?;
    let device = Arc::new(device);
    notifier.say("STATUS=opening the pool");
    let fast_bytes = fast::place(invocation, args).map_or(0, |place| place.bytes);
    let memory = MemoryPlan::with_tier(invocation.settings.memory_bytes, args.journal, fast_bytes);
    let pool = invocation.open_behind(&device, &memory)?;
    // Clients that come from here on wait, instead of finding the pool locked.
    let socket = ControlSocket::bind(invocation.settings.pool()?)
        .context("cannot create the control socket")?;
    fast::attach(invocation, args, &pool, &memory)?;
    notifier.say("STATUS=replaying the journal");
    let volumes = fast::open_volumes(invocation, args, pool, &memory)?;
    volumes.trace(!args.no_trace);
    let path = std::path::absolute(invocation.settings.pool()?)?;
    let server = ServerState::new(path, volumes, device, shares, memory);
    repair_from_replica(invocation, args, &server);
    server.classes.set_policy(policy);
    let server = Arc::new(server);
    let _clients = ClientsOf(&server);
    let zone = invocation.zone.clone();
    let exports = Arc::new(ServerExports::new(Arc::clone(&server), zone));
    let sockets = ClientSockets {
        socket: args.nbd_socket.as_deref(),
        listen: args.nbd_listen,
        iscsi: args.iscsi_listen,
        portals,
        iscsi_write_cache: args.iscsi_write_cache,
        rules: Arc::clone(&rules),
        connections: args.connections,
    };
    let program: Arc<dyn Program> = Arc::new(OnConsole(Arc::clone(console)));
    let places = start_servers(environment, &sockets, &server, &exports, &program)?;
    note_targets(console, &exports, &rules.now(), &places);
    let access = follow_access(invocation, args, &server, (&rules, &exports), &program)?;
    let names = exports.names();
    let metrics = args
        .metrics
        .map(|address| Endpoint::start(address, &server).context("cannot serve --metrics"))
        .transpose()?;
    if let Some(metrics) = &metrics {
        console.note(format_args!(
            "metrics at http://{}/metrics",
            metrics.address()
        ));
    }
    let destager = destager::start(&server, &program)?;
    let lane = invocation.lane(None, REGION_BYTES)?;
    let verifier = verifier::start(&server, &program, lane)?;
    let source = DefragSource::Volumes(Arc::clone(&server.volumes));
    let take_up = || unfinished(&source, lane);
    let defragger = defragger::start(&server.tasks, &program, &invocation.zone, lane, take_up)?;
    let collector = collector::start(&server.tasks, &program, lane)?;
    let classifying = classifying::start(&server.classes.classifiers)?;
    let clock = Arc::new(media::SystemClock);
    let tiering = tiering::start(&server, clock, &program)?;
    let commands = ClientCommands {
        server: Arc::clone(&server),
    };
    let control = socket.serve(Arc::new(commands))?;
    let signals = signals()?;
    let at_end = at_end(invocation, &signals, to_the_end);
    let pools = Pools::server_state(&server);
    let mount = mount
        .map(|settings| mounting::start(invocation, settings, &pools, at_end))
        .transpose()?;
    if let Some(mount) = &mount {
        mounting::announce(invocation, mount)?;
    }
    match to_the_end {
        true => console.note(mounting::HOW_IT_ENDS),
        false => announce(invocation, &places, names.iter())?,
    }
    notifier.say("READY=1\nSTATUS=serving");
    let watchdog = watchdog_interval(environment)?
        .map(|interval| watchdog::start(&notifier, interval, exports))
        .transpose()?;
    let _trimmer = trimmer::start(server.memory.all as u64)?;
    wait(invocation, signals, &|| said(&server, control.clients()))?;
    notifier.say("STOPPING=1\nSTATUS=stopping");
    // Ends first: writers may wait for its back-pressure.
    drop(collector);
    // Ends before the commands that wait for its run: they then report that the next server resumes
    // it.
    drop(defragger);
    if !control.stop(COMMANDS_LIMIT) {
        console.warn("some commands did not end in time and are stopped");
    }
    let unmounted = mount.map(|mount| mount.end((!to_the_end).then_some(COMMANDS_LIMIT)));
    stop_servers(console, &server);
    drop((access, metrics, verifier, destager, tiering, classifying));
    let settled = settle(&server, &notifier, &program);
    drop(watchdog);
    settled?;
    unmounted.transpose()?;
    Ok(Exit::Done)
}

/// Ends the servers for clients when the start fails, so that no socket is left behind. A server
/// that ends in good order has ended them before.
struct ClientsOf<'s>(&'s ServerState);

impl Drop for ClientsOf<'_> {
    fn drop(&mut self) {
        for server in self.0.clients.take_nbd() {
            server.stop();
        }
        for server in self.0.clients.take_iscsi() {
            server.stop();
        }
    }
}

/// Waits for the requests of clients and ends their connections.
fn stop_servers(console: &Console, server: &ServerState) {
    for server in server.clients.take_nbd() {
        if !server.stop() {
            console.warn("some NBD requests did not end in time and are dropped");
        }
    }
    for server in server.clients.take_iscsi() {
        if !server.stop() {
            console.warn("some iSCSI commands did not end in time and are dropped");
        }
    }
}

/// The rules of iSCSI access, the shares of the device, and the policy.
type Checked = (Arc<RulesInForce>, Shares, Option<PolicyInForce>);

/// Checks the settings, before anything is opened.
fn checked(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Checked> {
    if !JOURNAL_BYTES.contains(&args.journal) {
        bail!("invalid --journal: it is 2M to 64G");
    }
    fast::check(invocation, args)?;
    let rules = target_rules(invocation, args)?;
    let shares = Shares::default().with(&args.qos)?;
    let policy = args.policy.as_deref();
    let policy = policy.map(|name| policy::in_force(invocation, name));
    Ok((rules, shares, policy.transpose()?.flatten()))
}

/// Returns what happens when a mount ends: with `to_the_end` the server ends too.
fn at_end(
    invocation: &Invocation,
    signals: &Signals,
    to_the_end: bool,
) -> impl FnOnce() + Send + 'static {
    let stopping = to_the_end.then(|| (invocation.interrupt.clone(), signals.handle()));
    move || {
        if let Some((interrupt, signals)) = stopping {
            interrupt.request();
            signals.close();
        }
    }
}

/// Has scrubs repair from the replica. It may be absent for a while: volumes are served without it.
fn repair_from_replica(invocation: &Invocation, args: &ServeArgs, server: &ServerState) {
    match replica_of(invocation, &args.replica) {
        Ok(Some(replica)) => server.tasks.scrub.repair_from(replica),
        Ok(None) => {}
        Err(e) => invocation.console.warn(format_args!(
            "cannot use --replica: {}. Scrubs of this server repair nothing from it",
            crate::commands::failure::text(&e)
        )),
    }
}

/// Reads the rules of iSCSI access, before anything is opened.
fn target_rules(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Arc<RulesInForce>> {
    let rules = match &args.iscsi_access {
        Some(path) => AccessFile::new(path, &invocation.context.environment).rules()?,
        None => TargetRules::default(),
    };
    if let Some(address) = args.iscsi_listen {
        let checked = rules.check(address);
        if args.iscsi_access.is_none() && checked.is_err() {
            bail!(
                "cannot serve iSCSI on {address}: other machines can reach it, and nothing says \
                 who may log in; give --iscsi-access FILE, or a loopback address"
            );
        }
        checked?;
    }
    Ok(Arc::new(RulesInForce::new(rules)))
}

/// Follows the file of iSCSI access, if there is one.
fn follow_access(
    invocation: &Invocation,
    args: &ServeArgs,
    server: &Arc<ServerState>,
    (rules, exports): (&Arc<RulesInForce>, &Arc<ServerExports>),
    program: &Arc<dyn Program>,
) -> anyhow::Result<Option<Background>> {
    let Some(path) = &args.iscsi_access else {
        return Ok(None);
    };
    let file = AccessFile::new(path, &invocation.context.environment);
    let (console, exports) = (Arc::clone(&invocation.console), Arc::clone(exports));
    let noted = move |rules: &TargetRules| note_unknown_sections(&console, &exports, rules);
    Ok(Some(access::start(server, rules, file, program, noted)?))
}

/// Returns the answer to SIGUSR1.
fn said(server: &ServerState, commands: usize) -> String {
    let live = Live::of(server);
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{commands} commands",
        live.nbd, live.journal, live.checkpoints, live.cache
    )
}

/// Reports what of the exports and of the rules no initiator can use.
fn note_targets(
    console: &Console,
    exports: &ServerExports,
    rules: &TargetRules,
    places: &[String],
) {
    if places.iter().any(|place| place.starts_with("iscsi:")) {
        warn_of_exports_without_target(console, exports);
    }
    note_unknown_sections(console, exports, rules);
}

/// Reports sections of the rules for exports that do not exist.
fn note_unknown_sections(console: &Console, exports: &ServerExports, rules: &TargetRules) {
    let names = exports.names();
    for name in rules
        .exports()
        .filter(|name| !names.iter().any(|n| n == name))
    {
        console.note(format_args!(
            "--iscsi-access has a section for {name}, which is no volume or image yet"
        ));
    }
}

/// Warns of exports that initiators cannot use.
fn warn_of_exports_without_target(console: &Console, exports: &dyn Exports) {
    let exports = exports.list();
    for export in exports.iter().filter(|e| !has_target_name(e)) {
        console.warn(format_args!(
            "{} is not served over iSCSI: its name is too long for a target. Use NBD, or clone a volume to \
             a shorter name (quintet volume clone)",
            export.name
        ));
    }
    for export in exports.iter().filter(|e| !has_whole_blocks(e)) {
        console.warn(format_args!(
            "{} is not served over iSCSI: its size, {} bytes, is no multiple of {BLOCK_BYTES}. Use NBD, or change the \
             size of a volume (quintet volume resize)",
            export.name, export.size_bytes
        ));
    }
}
