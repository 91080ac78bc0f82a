//! `serve --read-only`: serves stored images, without holding the pool for writing. `serve` calls
//! this.
//!
//! Invariant: it serves the newest commit at its start. Later backups do not change that.

use super::{announce, image_volume, signals, wait};
use crate::commands::invocation::Invocation;
use crate::commands::known_snapshots::KnownSnapshots;
use anyhow::bail;
use browsing::choice::{SnapshotFilter, choose, split_path};
use browsing::tree::{TreePath, lookup, normal, top};
use command_line::ServeArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::EntryKind;
use nbd::{Exports, FixedExports, Server, ServerLimits};
use server::memory_plan::MemoryPlan;
use server::sockets::place;
use server::systemd::Notifier;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use store::{ImageVolume, Pool};
use terminal::exit::Exit;
use terminal::names::short_id;

pub(super) fn run(invocation: &Invocation, args: &ServeArgs) -> anyhow::Result<Exit> {
    let plan = MemoryPlan::of_images(invocation.settings.memory_bytes);
    let pool = Arc::new(invocation.open_within_with_tier(plan.pool_bytes)?);
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let file = |name: &str| Source::file(&pool, &snapshots, name);
    let chosen = snapshots.found(chosen(&snapshots, &args.export, &file))?;
    let mut exports = FixedExports::default();
    for (name, source) in &chosen {
        exports = exports.with(name, Arc::new(volume(invocation, &pool, source)));
    }
    if let Some(only) = only_image(&chosen) {
        exports = exports.with_default(&only);
    }
    let sockets = usize::from(args.nbd_socket.is_some()) + usize::from(args.nbd_listen.is_some());
    let options = ServerLimits {
        connections_max: args.connections.max(1).into(),
        pool_bytes: plan.requests_of_socket(sockets),
        ..ServerLimits::default()
    };
    let exports: Arc<dyn Exports> = Arc::new(exports);
    let mut servers = Vec::new();
    if let Some(path) = &args.nbd_socket {
        let server = Server::bind_unix(path, Arc::clone(&exports), options)?.start()?;
        servers.push((place(Some(path), None), server));
    }
    if let Some(address) = args.nbd_listen {
        let server = Server::bind_tcp(address, exports, options)?.start()?;
        servers.push((place(None, server.address()), server));
    }
    let notifier = Notifier::of(&invocation.context.environment)?;
    let places: Vec<String> = servers.iter().map(|(place, _)| place.clone()).collect();
    announce(invocation, &places, chosen.keys())?;
    notifier.say("READY=1");
    wait(invocation, signals()?, &|| {
        let all = servers
            .iter()
            .map(|(place, server)| format!("{place}: {:?}", server.stats()));
        all.collect::<Vec<_>>().join("\n")
    })?;
    notifier.say("STOPPING=1");
    for (_, server) in servers {
        if !server.stop() {
            invocation
                .console
                .warn("some NBD requests did not end in time and are dropped");
        }
    }
    Ok(Exit::Done)
}

/// Source of an export: an object and its snapshot.
struct Source<'a> {
    snapshot: &'a Snapshot,
    /// Path of a file in a tree. Empty for images and streams.
    path: Vec<u8>,
    root: ObjectRoot,
}

impl<'a> Source<'a> {
    fn whole(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            path: Vec::new(),
            root: snapshot.root,
        }
    }

    /// Resolves `SNAPSHOT:/PATH`: a file of a tree.
    fn file(pool: &Pool, snapshots: &'a [Snapshot], name: &str) -> anyhow::Result<Self> {
        let (wanted, path) = split_path(OsStr::new(name))?;
        let path = normal(&path.unwrap_or_default());
        let snapshot = choose(snapshots, &wanted, &SnapshotFilter::default())?;
        match lookup(pool.reader(), top(snapshot)?, &path)? {
            TreePath::Entry(entry) => match entry.kind {
                EntryKind::File { content, .. } => Ok(Self {
                    snapshot,
                    path,
                    root: content,
                }),
                _ => bail!("{name} is not a regular file"),
            },
            TreePath::Top(_) => bail!("{name} is not a regular file"),
        }
    }
}

type Chosen<'a> = BTreeMap<String, Source<'a>>;

/// Returns the exports by name: the requested ones, or else all states of images, the plain names
/// of their newest states, and snapshots of volumes.
fn chosen<'a>(
    snapshots: &'a KnownSnapshots,
    wanted: &[String],
    file: &dyn Fn(&str) -> anyhow::Result<Source<'a>>,
) -> anyhow::Result<Chosen<'a>> {
    let mut chosen = Chosen::new();
    for name in wanted {
        let source = match snapshots.named(name, &SnapshotFilter::default()) {
            Ok(snapshot) => Source::whole(snapshot),
            Err(_) if name.contains(":/") => file(name)?,
            Err(e) => return Err(e),
        };
        chosen.insert(name.clone(), source);
    }
    if wanted.is_empty() {
        // The order is oldest first, so the plain name ends up with the newest state.
        for snapshot in snapshots.iter() {
            let name = &snapshot.name;
            match snapshot.kind {
                SnapshotKind::Image => {
                    let state = format!("{name}@{}", short_id(snapshot));
                    chosen.insert(state, Source::whole(snapshot));
                }
                SnapshotKind::Volume => {}
                SnapshotKind::Tree | SnapshotKind::Stream => continue,
            }
            // The name of a volume never means an image.
            if !snapshots.is_volume(name) {
                chosen.insert(name.clone(), Source::whole(snapshot));
            }
        }
    }
    match chosen.is_empty() {
        true => {
            bail!("the pool has no image and no snapshot of a volume (see quintet import)")
        }
        false => Ok(chosen),
    }
}

/// Returns the default export: the image, if there is only one.
fn only_image(chosen: &Chosen<'_>) -> Option<String> {
    let mut plain = chosen
        .keys()
        .filter(|name| chosen.len() == 1 || !name.contains('@'));
    match (plain.next(), plain.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}

fn volume(invocation: &Invocation, pool: &Arc<Pool>, source: &Source<'_>) -> ImageVolume {
    let Source {
        snapshot,
        path,
        root,
    } = source;
    let what = match path.is_empty() {
        true => snapshot.name.clone(),
        false => String::from_utf8_lossy(path).into_owned(),
    };
    image_volume(pool, snapshot, *root, &what, &invocation.zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::recipe::ObjectRoot;
    use units::{SnapshotId, UnixNanos};

    fn image(number: u8, name: &str) -> Snapshot {
        Snapshot {
            name: name.to_owned(),
            files: 1,
            ..Snapshot::new(
                SnapshotId([number; 16]),
                UnixNanos(number.into()),
                SnapshotKind::Image,
                ObjectRoot::EMPTY,
            )
        }
    }

    #[test]
    fn names_of_exports() {
        let file = |name: &str| anyhow::bail!("no file {name}");
        let known = |images: &[Snapshot]| KnownSnapshots::whole(images.to_vec());
        let one = known(&[image(0x10, "disk"), image(0x20, "disk")]);
        let all = chosen(&one, &[], &file).unwrap();
        let names: Vec<&String> = all.keys().collect();
        assert_eq!(names, ["disk", "disk@10101010", "disk@20202020"]);
        assert_eq!(all["disk"].snapshot.id.0[0], 0x20);
        assert_eq!(only_image(&all).as_deref(), Some("disk"));
        let old = chosen(&one, &["disk@10".to_owned()], &file).unwrap();
        assert_eq!(only_image(&old).as_deref(), Some("disk@10"));
        let two = known(&[image(1, "a"), image(2, "b")]);
        assert_eq!(only_image(&chosen(&two, &[], &file).unwrap()), None);
        assert!(chosen(&two, &["c".to_owned()], &file).is_err());
        let none = known(&[]);
        assert!(chosen(&none, &[], &file).is_err());
        let both = KnownSnapshots::with_volume(vec![image(0x10, "disk")], "disk");
        let names: Vec<String> = chosen(&both, &[], &file).unwrap().into_keys().collect();
        assert_eq!(names, ["disk@10101010"]);
        assert!(chosen(&both, &["disk".to_owned()], &file).is_err());
        assert!(chosen(&both, &["disk@latest".to_owned()], &file).is_ok());
    }
}
