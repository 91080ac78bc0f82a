//! `volume`: changes and lists volumes. [`super::run`] calls this.
//!
//! Invariant: each command is one commit. Changes that remove data from under clients (rollback,
//! shrinking, deletion) are refused while there are clients, unless these are to be disconnected.
//! The commands work with and without a server.

mod info;
mod kept;
mod list;

pub(super) use kept::return_volumes;

use super::invocation::Invocation;
use anyhow::{Context, bail};
use browsing::choice::{SnapshotFilter, choose_named, expect_latest_known, is_called};
use command_line::{
    VolumeCloneArgs, VolumeCommand, VolumeCreateArgs, VolumeDeleteArgs, VolumeRenameArgs,
    VolumeResizeArgs, VolumeRollbackArgs,
};
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::VOLUME_CHUNK_LOG2;
use server::state::{Changing, OpenVolumes};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;
use volumes::VolumeStatus;

/// Offsets are signed in clients (`off_t`).
const SIZE_LIMIT: u64 = 1 << 63;

pub(super) fn run(invocation: &Invocation, command: &VolumeCommand) -> anyhow::Result<Exit> {
    match command {
        VolumeCommand::Create(args) => create(invocation, args),
        VolumeCommand::List => list::run(invocation),
        VolumeCommand::Info(args) => info::run(invocation, args),
        VolumeCommand::Rename(args) => rename(invocation, args),
        VolumeCommand::Clone(args) => clone(invocation, args),
        VolumeCommand::Snapshot { snapshot } => take_snapshot(invocation, snapshot),
        VolumeCommand::Rollback(args) => rollback(invocation, args),
        VolumeCommand::Resize(args) => resize(invocation, args),
        VolumeCommand::Delete(args) => delete(invocation, args),
    }
}

fn create(invocation: &Invocation, args: &VolumeCreateArgs) -> anyhow::Result<Exit> {
    let chunk_log2 = args.chunk_size.checked_ilog2().map(|log2| log2 as u8);
    let allowed = |log2: &u8| args.chunk_size.is_power_of_two() && VOLUME_CHUNK_LOG2.contains(log2);
    let Some(chunk_log2) = chunk_log2.filter(allowed) else {
        bail!("invalid --chunk-size: it is 4K, 8K, 16K, 32K or 64K");
    };
    checked_size("--size", args.size)?;
    let volumes = invocation.open_volumes()?;
    expect_free(&volumes, &args.name)?;
    volumes.create(&args.name, args.size, chunk_log2)?;
    say(invocation, &volumes, "created", &args.name)
}

fn clone(invocation: &Invocation, args: &VolumeCloneArgs) -> anyhow::Result<Exit> {
    let volumes = invocation.open_volumes()?;
    expect_free(&volumes, &args.name)?;
    if volumes.volume(&args.source).is_some() {
        volumes.clone_volume(&args.name, &args.source)?;
    } else {
        expect_latest_known(volumes.pool(), [&args.source])?;
        let snapshots = volumes.pool().snapshots()?;
        let found = choose_named(&snapshots, &args.source, &SnapshotFilter::default());
        let snapshot =
            found.with_context(|| format!("there is no volume {:?} either", args.source))?;
        volumes.clone_snapshot(&args.name, snapshot)?;
    }
    say(invocation, &volumes, "cloned", &args.name)
}

/// Refuses the name of an image or stream: one name means one object.
fn expect_free(volumes: &OpenVolumes, name: &str) -> anyhow::Result<()> {
    let (snapshots, _) = volumes.pool().snapshots_readable()?;
    match snapshots.iter().any(|s| is_called(s, name)) {
        true => bail!("{name:?} is the name of an image or stream; choose another name"),
        false => Ok(()),
    }
}

fn take_snapshot(invocation: &Invocation, name: &str) -> anyhow::Result<Exit> {
    let (volume, label) = split(name)?;
    let volumes = invocation.open_volumes()?;
    let snapshot = volumes.snapshot(volume, label)?;
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .text("action", "snapshot")
            .text("name", name)
            .text("snapshot_id", &snapshot.id.to_string())
            .integer("size_bytes", snapshot.root.len),
    )?;
    console.line(format!("created snapshot {name}"))?;
    Ok(Exit::Done)
}

fn rollback(invocation: &Invocation, args: &VolumeRollbackArgs) -> anyhow::Result<Exit> {
    let (name, _) = split(&args.snapshot)?;
    let volumes = invocation.open_volumes()?;
    status(&volumes, name)?;
    let snapshots = volumes.pool().snapshots()?;
    let snapshot = volume_snapshot(&snapshots, &args.snapshot)?;
    let lost = snapshots.iter().filter(|s| {
        let same = s.name.rsplit_once('@').is_some_and(|(of, _)| of == name);
        s.kind == SnapshotKind::Volume && same && s.taken > snapshot.taken
    });
    let newer: Vec<&str> = lost.map(|s| s.name.as_str()).collect();
    if !newer.is_empty() {
        let all = newer.join(", ");
        invocation
            .console
            .note(format_args!("newer snapshots stay: {all}"));
    }
    if args.dry_run {
        return would(invocation, &volumes, "rolled back", name);
    }
    let question = format!(
        "Reset {name} to {}, without its later writes",
        args.snapshot
    );
    kept::ask(invocation, &args.loss, &question)?;
    let _changing = make_way(invocation, &volumes, name, args.loss.force)?;
    kept::keep(invocation, &volumes, name, ("before-rollback", &args.loss))?;
    let id = status(&volumes, name)?.record.id;
    volumes.rollback(name, snapshot)?;
    if let Some(server) = &volumes.server {
        server.classes.forget_layout(id);
    }
    say(invocation, &volumes, "rolled back", name)
}

fn resize(invocation: &Invocation, args: &VolumeResizeArgs) -> anyhow::Result<Exit> {
    checked_size("size", args.size)?;
    let volumes = invocation.open_volumes()?;
    let before = status(&volumes, &args.name)?.record.root.len;
    let shrinks = args.size < before;
    if shrinks && !args.shrink {
        let (before, after) = (sizes::display(before), sizes::display(args.size));
        bail!(
            "{} has {before}; give --shrink to truncate it to {after}",
            args.name
        );
    }
    if args.dry_run {
        return would(invocation, &volumes, "resized", &args.name);
    }
    let mut changing = None;
    if shrinks {
        let size = sizes::display(args.size);
        let question = format!("Truncate {} to {size}", args.name);
        kept::ask(invocation, &args.loss, &question)?;
        changing = make_way(invocation, &volumes, &args.name, args.loss.force)?;
        kept::keep(
            invocation,
            &volumes,
            &args.name,
            ("before-shrink", &args.loss),
        )?;
    }
    volumes.resize(&args.name, args.size)?;
    drop(changing);
    if !shrinks && volumes.clients(&args.name) > 0 {
        let console = &invocation.console;
        console.note("clients see the new size when they connect again");
    }
    say(invocation, &volumes, "resized", &args.name)
}

fn delete(invocation: &Invocation, args: &VolumeDeleteArgs) -> anyhow::Result<Exit> {
    if args.name.contains('@') {
        bail!("{} is a snapshot; delete it with quintet forget", args.name);
    }
    let volumes = invocation.open_volumes()?;
    let found = status(&volumes, &args.name)?;
    if args.dry_run {
        return would(invocation, &volumes, "deleted", &args.name);
    }
    let size = sizes::display(found.record.root.len);
    let question = format!("Delete {} ({size})", args.name);
    kept::ask(invocation, &args.loss, &question)?;
    // Before the copy is kept: it has every write that was acknowledged.
    let _changing = make_way(invocation, &volumes, &args.name, args.loss.force)?;
    kept::keep(invocation, &volumes, &args.name, ("deleted", &args.loss))?;
    volumes.delete(&args.name)?;
    tell(invocation, "deleted", &found)
}

fn rename(invocation: &Invocation, args: &VolumeRenameArgs) -> anyhow::Result<Exit> {
    let (name, new) = (&args.name, &args.new);
    if name.contains('@') {
        bail!("{name} is a snapshot, which keeps its name; rename its volume");
    }
    let volumes = invocation.open_volumes()?;
    status(&volumes, name)?;
    expect_free(&volumes, new)?;
    if volumes.volume(new).is_some() {
        bail!("there is a volume {new:?} already; choose another name, or delete that volume");
    }
    let snapshots = volumes.pool().snapshots()?;
    if let Some(other) = snapshots.iter().find(|s| list::is_of(s, new)) {
        let other = &other.name;
        bail!(
            "{other} is left of an earlier volume {new:?}, and names must stay clear; choose another name, or forget it"
        );
    }
    // Nobody opens either name meanwhile. Clients cannot be taken along: they know the old name.
    let server = volumes.server.as_ref();
    let _changing = server.map(|server| [name, new].map(|name| server.clients.begin_change(name)));
    if let clients @ 1.. = volumes.clients(name) {
        bail!(
            "{name} is in use by {}; end them, rename, and let them connect to the new name",
            units::count(clients as u64, "connection")
        );
    }
    volumes.rename(name, new)?;
    let (forgotten, _) = volumes.pool().trash()?;
    if forgotten.iter().any(|f| list::is_of(&f.snapshot, name)) {
        let console = &invocation.console;
        console.note(format_args!("snapshots in the trash keep the name {name}"));
    }
    let found = status(&volumes, new)?;
    let console = &invocation.console;
    let message = list::volume(Object::message("summary"), &found).text("action", "renamed");
    console.message(message.text("before", name))?;
    console.line(format!("renamed {name} to {new}"))?;
    Ok(Exit::Done)
}

/// Splits `VOLUME@NAME`.
fn split(name: &str) -> anyhow::Result<(&str, &str)> {
    match name.split_once('@') {
        Some((volume, label)) if !volume.is_empty() && !label.is_empty() => Ok((volume, label)),
        _ => bail!("{name:?} is not VOLUME@NAME"),
    }
}

fn checked_size(name: &str, bytes: u64) -> anyhow::Result<()> {
    match bytes {
        0 => bail!("invalid {name}: it is at least 1 byte"),
        SIZE_LIMIT.. => bail!("invalid {name}: it is less than 8 EiB"),
        _ => Ok(()),
    }
}

fn status(volumes: &OpenVolumes, name: &str) -> anyhow::Result<VolumeStatus> {
    let mut all = volumes.list().into_iter();
    all.find(|volume| volume.record.name == name)
        .with_context(|| format!("there is no volume {name:?} (see quintet volume list)"))
}

fn volume_snapshot<'a>(snapshots: &'a [Snapshot], name: &str) -> anyhow::Result<&'a Snapshot> {
    let is_it = |s: &&Snapshot| s.kind == SnapshotKind::Volume && s.name == name;
    let found = snapshots.iter().find(is_it);
    found.with_context(|| format!("there is no snapshot {name:?} (see quintet snapshots)"))
}

/// Fails if clients use the volume, unless `force` disconnects them.
fn in_use(volumes: &OpenVolumes, name: &str, force: bool) -> anyhow::Result<()> {
    match volumes.clients(name) {
        clients if clients > 0 && !force => bail!(
            "{name} is in use by {}; end them first, or give --force to disconnect them",
            units::count(clients as u64, "connection")
        ),
        _ => Ok(()),
    }
}

fn disconnect(invocation: &Invocation, volumes: &OpenVolumes, name: &str) {
    let closed = volumes
        .server
        .as_ref()
        .map_or(0, |server| server.clients.disconnect(name));
    if closed > 0 {
        let console = &invocation.console;
        console.note(format_args!(
            "disconnected {}",
            units::count(closed as u64, "client")
        ));
    }
}

/// Disconnects the clients of a volume. None opens it until the result is dropped.
fn make_way(
    invocation: &Invocation,
    volumes: &OpenVolumes,
    name: &str,
    force: bool,
) -> anyhow::Result<Option<Changing>> {
    let server = volumes.server.as_ref();
    let changing = server.map(|server| server.clients.begin_change(name));
    in_use(volumes, name, force)?;
    disconnect(invocation, volumes, name);
    Ok(changing)
}

fn would(
    invocation: &Invocation,
    volumes: &OpenVolumes,
    done: &str,
    name: &str,
) -> anyhow::Result<Exit> {
    let found = status(volumes, name)?;
    let clients = volumes.clients(name) as u64;
    let console = &invocation.console;
    console.message(
        list::volume(Object::message("summary"), &found)
            .text("action", done)
            .boolean("dry_run", true)
            .integer("clients", clients),
    )?;
    let size = sizes::display(found.record.root.len);
    console.line(format!("{name} ({size}) would be {done}"))?;
    if clients > 0 {
        console.line(format!(
            "{} is in use by {}",
            name,
            units::count(clients, "connection")
        ))?;
    }
    Ok(Exit::Done)
}

fn say(
    invocation: &Invocation,
    volumes: &OpenVolumes,
    done: &str,
    name: &str,
) -> anyhow::Result<Exit> {
    tell(invocation, done, &status(volumes, name)?)
}

fn tell(invocation: &Invocation, done: &str, volume: &VolumeStatus) -> anyhow::Result<Exit> {
    let console = &invocation.console;
    console.message(list::volume(Object::message("summary"), volume).text("action", done))?;
    let (name, size) = (&volume.record.name, sizes::display(volume.record.root.len));
    console.line(format!("{done} {name} ({size})"))?;
    Ok(Exit::Done)
}
