//! Lists the volumes that are shown. The program implements [`Volumes`] over its pool; tests and
//! examples use [`FixedVolumes`].
//!
//! Invariant: an id names one volume for as long as it lives, and no other afterwards.

use crate::file_system::Time;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use units::VolumeId;
use volume::{Volume, VolumeError, VolumeErrorKind};

/// A volume as a directory shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Identifies the volume under any name.
    pub id: VolumeId,
    /// Names of directories and of the file, separated by `/`. None is empty, `.` or `..`, contains
    /// a NUL, or ends with `@`.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The content never changes: writes fail, and the kernel caches it.
    pub frozen: bool,
    /// Time of the last write, if known.
    pub modified: Option<Time>,
}

/// All volumes at one moment.
#[derive(Clone, Debug, Default)]
pub struct VolumeList {
    pub(super) by_name: BTreeMap<String, VolumeEntry>,
    pub(super) by_id: HashMap<VolumeId, String>,
}

impl VolumeList {
    /// Returns the volume with this id, or `None` if it was deleted.
    pub(super) fn describe(&self, id: VolumeId) -> Option<&VolumeEntry> {
        self.by_name.get(self.by_id.get(&id)?)
    }
}

/// Of several with one name the last one counts.
impl FromIterator<VolumeEntry> for VolumeList {
    fn from_iter<T: IntoIterator<Item = VolumeEntry>>(entries: T) -> Self {
        let mut list = Self::default();
        for entry in entries {
            let (id, name) = (entry.id, entry.name.clone());
            if let Some(before) = list.by_name.insert(name.clone(), entry) {
                list.by_id.remove(&before.id);
            }
            list.by_id.insert(id, name);
        }
        list
    }
}

/// The volumes that are shown as files. Many threads may call this at once.
pub trait Volumes: Send + Sync {
    /// Returns the current list of volumes. Called for every access to a name: an implementation
    /// with many volumes caches the list until it changes.
    fn list(&self) -> Arc<VolumeList>;

    /// Returns true if the list likely needs no device now.
    fn is_listed(&self) -> bool {
        true
    }

    /// Opens a volume. All opens of one id must see each other's writes. A flush through one must
    /// cover the acknowledged writes of all.
    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError>;
}

/// A fixed set of volumes. Read-only ones count as frozen.
#[derive(Clone, Default)]
pub struct FixedVolumes {
    list: Arc<VolumeList>,
    volumes: HashMap<VolumeId, Arc<dyn Volume>>,
}

impl FixedVolumes {
    /// Shows `volume` as `name`.
    pub fn with(mut self, name: &str, volume: Arc<dyn Volume>) -> Self {
        let id = VolumeId((self.volumes.len() as u128).to_be_bytes());
        let info = volume.info();
        let entry = VolumeEntry {
            id,
            name: name.to_owned(),
            size_bytes: info.size_bytes,
            frozen: info.read_only,
            modified: None,
        };
        let all = self.list.by_name.values().cloned();
        self.list = Arc::new(all.chain([entry]).collect());
        self.volumes.insert(id, volume);
        self
    }
}

impl Volumes for FixedVolumes {
    fn list(&self) -> Arc<VolumeList> {
        Arc::clone(&self.list)
    }

    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError> {
        let found = self.volumes.get(&id);
        found.cloned().ok_or_else(|| VolumeErrorKind::Io.into())
    }
}
