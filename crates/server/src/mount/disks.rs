//! Volumes and images as files: the contents of the directories `volumes` and `images`.
//! [`super::PoolFiles`] calls this.
//!
//! Invariant: the names are those of NBD exports. Volumes are shown only by the process that holds
//! the pool for writing; a read-only mount shows snapshots and images. The list is made again when
//! its sources have changed.

use super::snapshot_list::SnapshotList;
use crate::meters::Metered;
use crate::state::ServerState;
use format::snapshot::{Snapshot, SnapshotKind};
use fuse::{Time, VolumeEntry, VolumeList};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use store::{HolderKind, ImageVolume, SnapshotRoot};
use units::{UnixNanos, VolumeId};
use volume::{Volume, VolumeError, VolumeErrorKind};

/// Number of digits of a snapshot's id in a name.
const SHORT_DIGITS: usize = 8;

/// Selects a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Volumes as NAME, and their snapshots as NAME@LABEL.
    Volumes,
    /// Images: NAME is the newest state, NAME@SNAPSHOT is one state.
    Images,
}

/// One directory of volumes or images.
pub struct Disks {
    which: Which,
    snapshots: Arc<SnapshotList>,
    server: Option<Arc<ServerState>>,
    /// Path of the mount, which lists of holds show as the holder.
    mount: String,
    kept: Mutex<DiskList>,
}

/// The list and its sources.
#[derive(Clone, Default)]
struct DiskList {
    snapshots: Option<Arc<Vec<Snapshot>>>,
    volumes: Vec<(VolumeId, u64)>,
    list: Arc<VolumeList>,
    /// Snapshots with their names.
    frozen: Arc<HashMap<VolumeId, (SnapshotRoot, String)>>,
}

impl Disks {
    /// Shows volumes or images of the pool at the path `mount`. Volumes need `server`.
    pub fn new(
        which: Which,
        snapshots: Arc<SnapshotList>,
        server: Option<Arc<ServerState>>,
        mount: &str,
    ) -> Self {
        Self {
            which,
            snapshots,
            server,
            mount: mount.to_owned(),
            kept: Mutex::default(),
        }
    }

    fn now(&self) -> DiskList {
        let snapshots = self.snapshots.now();
        let volumes = self.volumes();
        let sizes: Vec<_> = volumes.iter().map(|v| (v.id, v.size_bytes)).collect();
        {
            let kept = self.kept.lock();
            let same = |of: &Arc<Vec<Snapshot>>| Arc::ptr_eq(of, &snapshots);
            if kept.volumes == sizes && kept.snapshots.as_ref().is_some_and(same) {
                return kept.clone();
            }
        }
        let mut frozen = HashMap::new();
        let mut entries = Vec::new();
        for snapshot in snapshots.iter() {
            let wanted = match self.which {
                Which::Volumes => SnapshotKind::Volume,
                Which::Images => SnapshotKind::Image,
            };
            if snapshot.kind == wanted {
                let root = SnapshotRoot::from(snapshot);
                frozen.insert(VolumeId(snapshot.id.0), (root, snapshot.name.clone()));
                self.states(snapshot, &mut entries);
            }
        }
        entries.extend(volumes);
        // A later entry replaces an earlier one of its name: the newest state of an image, and a
        // volume.
        let made = DiskList {
            snapshots: Some(snapshots),
            volumes: sizes,
            list: Arc::new(entries.into_iter().collect()),
            frozen: Arc::new(frozen),
        };
        *self.kept.lock() = made.clone();
        made
    }

    fn volumes(&self) -> Vec<VolumeEntry> {
        let Some(server) = self
            .server
            .as_ref()
            .filter(|_| self.which == Which::Volumes)
        else {
            return Vec::new();
        };
        let volumes = server.volumes.list().into_iter();
        let entry = |volume: volumes::VolumeStatus| VolumeEntry {
            id: volume.record.id,
            name: volume.record.name,
            size_bytes: volume.record.root.len,
            frozen: false,
            modified: None,
        };
        volumes.map(entry).collect()
    }

    /// Adds the entries of one snapshot.
    fn states(&self, snapshot: &Snapshot, entries: &mut Vec<VolumeEntry>) {
        let entry = |id: VolumeId, name: String| VolumeEntry {
            id,
            name,
            size_bytes: snapshot.root.len,
            frozen: true,
            modified: Some(time(snapshot.taken)),
        };
        let id = VolumeId(snapshot.id.0);
        let name = path(&snapshot.name);
        match self.which {
            Which::Volumes => entries.push(entry(id, name)),
            Which::Images => {
                let short = snapshot.id.to_string();
                let short = short.get(..SHORT_DIGITS).unwrap_or(&short);
                entries.push(entry(id, format!("{name}@{short}")));
                entries.push(entry(newest(id), name));
            }
        }
    }

    fn open_state(&self, state: &SnapshotRoot, name: &str) -> Arc<dyn Volume> {
        match &self.server {
            Some(server) => {
                let kept =
                    server
                        .pool
                        .holders()
                        .open_snapshot(state, HolderKind::Mount, &self.mount);
                let view = server.volumes.view(state.root, String::new());
                Arc::new(
                    server
                        .classes
                        .classify_state(state.id, name, view.keeping(kept)),
                )
            }
            None => {
                let reader = Arc::clone(self.snapshots.pool().reader());
                Arc::new(ImageVolume::new(reader, state.root, String::new()))
            }
        }
    }

    fn open_volume(&self, id: VolumeId) -> Option<Arc<dyn Volume>> {
        let server = self.server.as_ref()?;
        let mut all = server.volumes.list().into_iter();
        let name = all.find(|volume| volume.record.id == id)?.record.name;
        let volume = server
            .classes
            .classify_volume(id, &name, server.volumes.volume(&name)?);
        let volume = Metered::new(volume, server.meters.of(&name));
        let file = server.clients.open_file(&name, volume);
        // The file is counted before this: a command that begins now disconnects it.
        (!server.clients.is_changing(&name)).then(|| Arc::new(file) as Arc<dyn Volume>)
    }
}

impl fuse::Volumes for Disks {
    fn list(&self) -> Arc<VolumeList> {
        self.now().list
    }

    fn is_listed(&self) -> bool {
        self.snapshots.is_current()
    }

    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError> {
        let frozen = self.now().frozen;
        let state = frozen.get(&id).or_else(|| frozen.get(&newest(id)));
        let opened = match state {
            Some((state, name)) => Some(self.open_state(state, name)),
            None => self.open_volume(id),
        };
        opened.ok_or_else(|| VolumeErrorKind::Io.into())
    }
}

/// Returns the id of an image's plain name. Both names of the newest state are files, and a file
/// needs an id of its own. The function is its own inverse.
fn newest(VolumeId(id): VolumeId) -> VolumeId {
    VolumeId(id.map(|byte| !byte))
}

/// Converts a name to a path whose parts are valid file names, with text after a final `@`.
fn path(text: &str) -> String {
    let part = |part: &str| match part {
        "" | "." | ".." => format!("_{part}"),
        part => part.replace('\0', "_"),
    };
    let parts: Vec<String> = text.split('/').map(part).collect();
    let path = parts.join("/");
    match path.strip_suffix('@') {
        Some(before) => format!("{before}@_"),
        None => path,
    }
}

fn time(UnixNanos(nanos): UnixNanos) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        seconds: nanos.div_euclid(SECOND),
        nanos: nanos.rem_euclid(SECOND) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_path() {
        let cases = [
            ("a", "a"),
            ("a/b", "a/b"),
            ("/a//..", "_/a/_/_.."),
            ("", "_"),
            ("a@", "a@_"),
            ("v@l", "v@l"),
        ];
        for (text, expected) in cases {
            assert_eq!(path(text), expected);
        }
        let id = VolumeId([7; 16]);
        assert_ne!(newest(id), id);
        assert_eq!(newest(newest(id)), id);
    }
}
