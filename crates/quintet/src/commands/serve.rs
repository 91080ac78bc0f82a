//! `serve nbd`: stored images in place, read-only.
//!
//! Invariant: what is served is what the newest commit at the start held; later backups do not
//! disturb it. Ends in good order on SIGINT and SIGTERM, with exit code 0.

use super::invocation::Invocation;
use super::snapshot_choice::{SnapshotFilter, choose_named, short_id};
use crate::calendar;
use crate::cli::NbdArgs;
use crate::exit::Exit;
use crate::json::Object;
use anyhow::{Context, bail};
use format::snapshot::{Snapshot, SnapshotKind};
use nbd::{FixedExports, Server, ServerHandle, ServerOptions};
use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;
use store::{ImageVolume, OpenMode, Pool};

/// How long a signal may wait.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

pub(super) fn nbd(invocation: &Invocation, args: &NbdArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let snapshots = pool.snapshots()?;
    let chosen = chosen(&snapshots, &args.export)?;
    let mut exports = FixedExports::default();
    for (name, snapshot) in &chosen {
        exports = exports.with(name, Arc::new(volume(invocation, &pool, snapshot)));
    }
    if let Some(only) = only_image(&chosen) {
        exports = exports.with_default(&only);
    }
    let options = ServerOptions {
        connections_max: args.connections.max(1).into(),
        ..ServerOptions::default()
    };
    let exports = Arc::new(exports);
    let server = match (&args.socket, args.listen) {
        (Some(path), _) => Server::bind_unix(path, exports, options)?,
        (None, Some(address)) => Server::bind_tcp(address, exports, options)?,
        (None, None) => bail!("where? give --socket or --listen"),
    };
    let server = server.start()?;
    announce(invocation, args, &server, &chosen)?;
    wait(invocation, &server);
    if !server.stop() {
        invocation.console.warn("some requests did not end in time");
    }
    Ok(Exit::Done)
}

type Chosen<'a> = BTreeMap<String, &'a Snapshot>;

/// Exports by name: each image's newest state and all its states, or only what was asked for.
fn chosen<'a>(snapshots: &'a [Snapshot], wanted: &[String]) -> anyhow::Result<Chosen<'a>> {
    let mut chosen = Chosen::new();
    for name in wanted {
        let snapshot = choose_named(snapshots, name, &SnapshotFilter::default())?;
        chosen.insert(name.clone(), snapshot);
    }
    if wanted.is_empty() {
        // Oldest first: the newest state keeps the plain name.
        for snapshot in snapshots.iter().filter(|s| s.kind == SnapshotKind::Image) {
            let name = &snapshot.name;
            chosen.insert(name.clone(), snapshot);
            chosen.insert(format!("{name}@{}", short_id(snapshot)), snapshot);
        }
    }
    match chosen.is_empty() {
        true => bail!("there is no image in the pool (see quintet import)"),
        false => Ok(chosen),
    }
}

/// What clients get that ask for no name: the image, when there is only one.
fn only_image(chosen: &Chosen<'_>) -> Option<String> {
    let mut plain = chosen
        .keys()
        .filter(|name| chosen.len() == 1 || !name.contains('@'));
    match (plain.next(), plain.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}

fn volume(invocation: &Invocation, pool: &Pool, snapshot: &Snapshot) -> ImageVolume {
    let time = calendar::local(snapshot.taken, &invocation.zone);
    let description = format!("{} of {time}, {}", snapshot.name, short_id(snapshot));
    ImageVolume::new(Arc::clone(pool.reader()), snapshot.root, description)
}

fn announce(
    invocation: &Invocation,
    args: &NbdArgs,
    server: &ServerHandle,
    chosen: &Chosen<'_>,
) -> anyhow::Result<()> {
    let place = match (&args.socket, server.tcp_address()) {
        (Some(path), _) => format!("nbd+unix:///?socket={}", path.display()),
        (None, Some(address)) => format!("nbd://{address}"),
        (None, None) => String::new(),
    };
    let console = &invocation.console;
    console.message(
        Object::message("serving")
            .text("uri", &place)
            .texts("exports", chosen.keys()),
    )?;
    console.line(format!("serving {} exports at {place}", chosen.len()))?;
    console.flush()?;
    for name in chosen.keys() {
        console.detail(format_args!("export {name}"));
    }
    // Type=notify of systemd.
    if let Some(socket) = invocation.environment.value("NOTIFY_SOCKET") {
        notify(socket).context("NOTIFY_SOCKET")?;
    }
    Ok(())
}

fn notify(socket: &std::ffi::OsStr) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)?;
    Ok(())
}

fn wait(invocation: &Invocation, server: &ServerHandle) {
    while !invocation.interrupt.requested() {
        std::thread::sleep(SIGNAL_POLL);
        if invocation.interrupt.take_report_request() {
            invocation.console.say(&format!("{:?}", server.stats()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::recipe::ObjectRoot;
    use units::{SnapshotId, UnixNanos};

    fn image(number: u8, name: &str) -> Snapshot {
        Snapshot {
            id: SnapshotId([number; 16]),
            taken: UnixNanos(number.into()),
            kind: SnapshotKind::Image,
            root: ObjectRoot::EMPTY,
            name: name.to_owned(),
            host: String::new(),
            user: String::new(),
            program: String::new(),
            paths: Vec::new(),
            tags: Vec::new(),
            files: 1,
            directories: 0,
            logical_bytes: 0,
            added_bytes: 0,
            duration_ms: 0,
            parent: SnapshotId::default(),
            signature: Vec::new(),
        }
    }

    #[test]
    fn names_of_exports() {
        let one = [image(0x10, "disk"), image(0x20, "disk")];
        let all = chosen(&one, &[]).unwrap();
        let names: Vec<&String> = all.keys().collect();
        assert_eq!(names, ["disk", "disk@10101010", "disk@20202020"]);
        assert_eq!(all["disk"].id.0[0], 0x20);
        assert_eq!(only_image(&all).as_deref(), Some("disk"));
        let old = chosen(&one, &["disk@10".to_owned()]).unwrap();
        assert_eq!(only_image(&old).as_deref(), Some("disk@10"));
        let two = [image(1, "a"), image(2, "b")];
        assert_eq!(only_image(&chosen(&two, &[]).unwrap()), None);
        assert!(chosen(&two, &["c".to_owned()]).is_err());
        assert!(chosen(&[], &[]).is_err());
    }
}
