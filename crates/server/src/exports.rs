//! The exports that NBD clients and iSCSI initiators of a server can open. The NBD servers call
//! this, and the targets of the iSCSI servers.
//!
//! Invariant: every list and every open reads the present state. A volume takes precedence over an
//! image of the same name. An open export holds its snapshot against gc. All clients of a volume
//! see each other's writes. NBD connections that are made together, as programs that copy do, see
//! the same state of an image.

mod reservations;

use crate::meters::Metered;
use crate::state::ServerState;
use crate::targets::{Disks, ExportDisk};
use format::snapshot::{Snapshot, SnapshotKind};
use jiff::tz::TimeZone;
use nbd::{ExportEntry, Exports};
use parking_lot::Mutex;
use reservations::VolumeReservations;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::{HolderKind, SnapshotRoot};
use terminal::names::{description, short_id};
use units::SnapshotId;
use volume::Volume;

/// Time in which the connections of one client are made.
const TOGETHER: Duration = Duration::from_secs(60);

/// The exports of a server. Volumes are NAME, their snapshots NAME@LABEL. Images are NAME for the
/// newest state and NAME@SNAPSHOT.
pub struct ServerExports {
    server: Arc<ServerState>,
    zone: TimeZone,
    /// Kind of the clients, for what they hold open.
    kind: HolderKind,
    /// The states of images that NBD clients have opened by their plain name.
    opened: Mutex<BTreeMap<String, Opened>>,
}

/// The newest state of an image when a client opened it.
struct Opened {
    state: SnapshotId,
    volume: Weak<dyn Volume>,
    at: Instant,
}

impl ServerExports {
    /// Descriptions show times in `zone`.
    pub fn new(server: Arc<ServerState>, zone: TimeZone) -> Self {
        Self {
            server,
            zone,
            kind: HolderKind::Nbd,
            opened: Mutex::default(),
        }
    }

    /// Returns the same exports for iSCSI initiators.
    pub fn for_initiators(&self) -> Self {
        Self {
            kind: HolderKind::Iscsi,
            ..Self::new(Arc::clone(&self.server), self.zone.clone())
        }
    }

    /// Returns the states of volumes and images by name. Unreadable snapshots are left out.
    fn states(&self) -> BTreeMap<String, Snapshot> {
        let snapshots = self.server.pool.snapshots_readable();
        let (snapshots, _) = snapshots.unwrap_or_default();
        let mut states = BTreeMap::new();
        // The order is oldest first, so the plain name ends up with the newest state of an image.
        for snapshot in snapshots {
            let name = snapshot.name.clone();
            match snapshot.kind {
                SnapshotKind::Volume => {
                    states.insert(name, snapshot);
                }
                SnapshotKind::Image => {
                    let state = format!("{name}@{}", short_id(&snapshot));
                    states.insert(state, snapshot.clone());
                    states.insert(name, snapshot);
                }
                SnapshotKind::Tree | SnapshotKind::Stream => {}
            }
        }
        states
    }

    /// Returns bytes that no other disk has, in this pool or another. A volume keeps them when it
    /// is renamed, resized or rolled back. A clone has others, and so has a new volume or state of
    /// the same name.
    fn identity(&self, kind: &str, id: &[u8; 16]) -> Arc<[u8]> {
        let pool = self.server.pool.config().pool;
        [&pool.0[..], kind.as_bytes(), id].concat().into()
    }

    /// Opens a state. `None` if it was deleted since it was listed.
    fn open_state(&self, name: &str, snapshot: &Snapshot) -> Option<ExportDisk> {
        // Holds the snapshot for this client, even if it is deleted later.
        let root = SnapshotRoot::from(snapshot);
        let kept = self
            .server
            .pool
            .holders()
            .open_snapshot(&root, self.kind, name)?;
        let description = description(snapshot, &snapshot.name, &self.zone);
        let meter = self.server.meters.of(name);
        let cache = Arc::clone(&meter.cache);
        let view = self.server.volumes.view_state(snapshot, description, cache);
        let view = view.keeping(Some(kept));
        let view = self.server.classes.classify_state(snapshot.id, name, view);
        let identity = self.identity("state", &snapshot.id.0);
        Some(ExportDisk {
            volume: Arc::new(Metered::new(view, meter)),
            identity,
            reservations: None,
        })
    }

    /// Opens an image for one of several connections of a client: those that are made within
    /// [`TOGETHER`] see the state that the first of them saw, as long as that one is there.
    fn open_together(&self, name: &str) -> Option<Arc<dyn Volume>> {
        let mut states = self.states();
        let newest = states.remove(name)?;
        let mut opened = self.opened.lock();
        opened.retain(|_, one| one.volume.strong_count() > 0 && one.at.elapsed() < TOGETHER);
        if let Some(first) = opened.get(name)
            && let Some(state) = states.into_values().find(|state| state.id == first.state)
            && let Some(disk) = self.open_state(name, &state)
        {
            return Some(disk.volume);
        }
        let volume = self.open_state(name, &newest)?.volume;
        let first = Opened {
            state: newest.id,
            volume: Arc::downgrade(&volume),
            at: Instant::now(),
        };
        opened.insert(name.to_owned(), first);
        Some(volume)
    }

    /// Returns all names.
    pub fn names(&self) -> Vec<String> {
        self.list().into_iter().map(|entry| entry.name).collect()
    }
}

impl Disks for ServerExports {
    fn is_changing(&self, name: &str) -> bool {
        self.server.clients.is_changing(name)
    }

    fn open_disk(&self, name: &str) -> Option<ExportDisk> {
        if self.server.clients.is_changing(name) {
            return None;
        }
        if let Some(volume) = self.server.volumes.volume(name) {
            let volume_id = volume.id();
            let reservations = VolumeReservations {
                server: Arc::clone(&self.server),
                volume: volume_id,
            };
            let volume = self.server.classes.classify_volume(volume_id, name, volume);
            let identity = self.identity("volume", &volume_id.0);
            let volume = Arc::new(Metered::new(volume, self.server.meters.of(name)));
            return Some(ExportDisk {
                volume,
                identity,
                reservations: Some(Arc::new(reservations)),
            });
        }
        self.open_state(name, &self.states().remove(name)?)
    }
}

impl Exports for ServerExports {
    fn list(&self) -> Vec<ExportEntry> {
        let state = |(name, snapshot): (String, Snapshot)| {
            let entry = ExportEntry {
                description: format!("state {}", short_id(&snapshot)),
                size_bytes: snapshot.root.len,
                name: name.clone(),
            };
            (name, entry)
        };
        let mut all: BTreeMap<String, ExportEntry> = self.states().into_iter().map(state).collect();
        for volume in self.server.volumes.list() {
            let entry = ExportEntry {
                name: volume.record.name.clone(),
                description: "volume".to_owned(),
                size_bytes: volume.record.root.len,
            };
            all.insert(volume.record.name, entry);
        }
        all.into_values().collect()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Volume>> {
        let is_plain_image = !name.contains('@') && self.server.volumes.volume(name).is_none();
        match is_plain_image && !self.server.clients.is_changing(name) {
            true => self.open_together(name),
            false => self.open_disk(name).map(|disk| disk.volume),
        }
    }

    fn default_name(&self) -> Option<String> {
        let mut plain = self.names().into_iter().filter(|name| !name.contains('@'));
        match (plain.next(), plain.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::server_state;

    #[test]
    fn a_volume_keeps_its_identity_and_no_other_disk_has_it() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [server, other] = [&one, &two].map(|top| Arc::new(server_state(top.path())));
        let exports =
            |server: &Arc<ServerState>| ServerExports::new(Arc::clone(server), TimeZone::UTC);
        let identity = |name: &str| exports(&server).open_disk(name).unwrap().identity;
        server.volumes.create("web", 1 << 20, 12).unwrap();
        let first = identity("web");
        let snapshot = server.volumes.snapshot("web", "a").unwrap();
        server.volumes.rollback("web", &snapshot).unwrap();
        server.volumes.resize("web", 2 << 20).unwrap();
        assert_eq!(identity("web"), first, "rolled back and resized");
        server.volumes.clone_snapshot("clone", &snapshot).unwrap();
        assert_ne!(identity("clone"), first);
        let of_state = identity("web@a");
        assert_ne!(of_state, first);
        server.volumes.delete("web").unwrap();
        server.volumes.create("web", 1 << 20, 12).unwrap();
        assert_ne!(identity("web"), first, "a new volume of the same name");
        other.volumes.create("web", 1 << 20, 12).unwrap();
        let elsewhere = exports(&other).open_disk("web").unwrap().identity;
        assert_ne!(elsewhere, identity("web"), "a volume of another pool");
    }

    #[test]
    fn an_export_that_is_being_changed_cannot_be_opened() {
        let top = tempfile::tempdir().unwrap();
        let server = Arc::new(server_state(top.path()));
        server.volumes.create("web", 1 << 20, 12).unwrap();
        let exports = ServerExports::new(Arc::clone(&server), TimeZone::UTC);
        let changing = server.clients.begin_change("web");
        assert!(exports.open("web").is_none() && exports.is_changing("web"));
        assert_eq!(server.clients.disconnect("web"), 0);
        drop(changing);
        assert!(exports.open("web").is_some());
    }
}
