//! Which volumes there are.
//!
//! Invariant: an id names one volume for as long as it lives, and no other afterwards. The program
//! implements [`Volumes`] over its pool; tests and examples use [`FixedVolumes`].

use crate::file_system::Time;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use units::VolumeId;
use volume::{Volume, VolumeError, VolumeErrorKind};

/// What a directory shows of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Names it whatever it is called.
    pub id: VolumeId,
    /// Names of directories and of the file, with `/` between: none of them empty, `.` or `..`,
    /// no NUL, and no `@` at the end.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Nobody changes it, whichever way: writes fail, and the kernel keeps what it has read.
    pub frozen: bool,
    /// When it was last written, if that is known.
    pub modified: Option<Time>,
}

/// All volumes of a moment.
#[derive(Clone, Debug, Default)]
pub struct VolumeList {
    pub(super) by_name: BTreeMap<String, VolumeEntry>,
    pub(super) by_id: HashMap<VolumeId, String>,
}

impl VolumeList {
    /// The volume with this id, or `None` if it is gone.
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

/// The volumes that are shown as files. Called from many threads at once.
pub trait Volumes: Send + Sync {
    /// All volumes as they are now. Asked at every look at a name: an implementation with many
    /// keeps the list until something changes.
    fn list(&self) -> Arc<VolumeList>;

    /// True if the list is likely to need no device now.
    fn is_listed(&self) -> bool {
        true
    }

    /// Opens a volume. All opens of one id must see each other's writes, and a flush through one
    /// must cover the acknowledged writes of all.
    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError>;
}

/// Volumes that do not change while they are shown. What is read-only is taken for frozen.
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
