//! Which volumes there are.
//!
//! Invariant: an id names one volume for as long as it lives, and no other afterwards. The program
//! implements [`Volumes`] over its pool; tests and examples use [`FixedVolumes`].

use crate::file_system::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::VolumeId;
use volume::{Volume, VolumeError, VolumeErrorKind};

/// What a directory shows of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Names it whatever it is called.
    pub id: VolumeId,
    /// Names of directories and of the file, with `/` between: none of them empty, `.` or `..`,
    /// no NUL, and no `@`.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Writes fail.
    pub read_only: bool,
    /// When it was last written, if that is known.
    pub modified: Option<Time>,
}

/// The volumes that are shown as files. Called from many threads at once.
pub trait Volumes: Send + Sync {
    /// All volumes.
    fn list(&self) -> Vec<VolumeEntry>;

    /// The volume with this id, or `None` if it is gone.
    fn describe(&self, id: VolumeId) -> Option<VolumeEntry>;

    /// Opens a volume. All opens of one id must see each other's writes, and a flush through one
    /// must cover the acknowledged writes of all.
    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError>;
}

/// Volumes that do not change while they are shown.
#[derive(Clone, Default)]
pub struct FixedVolumes(BTreeMap<String, (VolumeId, Arc<dyn Volume>)>);

impl FixedVolumes {
    /// Shows `volume` as `name`.
    pub fn with(mut self, name: &str, volume: Arc<dyn Volume>) -> Self {
        let id = VolumeId((self.0.len() as u128).to_be_bytes());
        self.0.insert(name.to_owned(), (id, volume));
        self
    }
}

fn entry(name: &str, id: VolumeId, volume: &dyn Volume) -> VolumeEntry {
    let info = volume.info();
    VolumeEntry {
        id,
        name: name.to_owned(),
        size_bytes: info.size_bytes,
        read_only: info.read_only,
        modified: None,
    }
}

impl Volumes for FixedVolumes {
    fn list(&self) -> Vec<VolumeEntry> {
        let all = self.0.iter();
        all.map(|(name, (id, volume))| entry(name, *id, volume))
            .collect()
    }

    fn describe(&self, id: VolumeId) -> Option<VolumeEntry> {
        let mut all = self.0.iter();
        let (name, (_, volume)) = all.find(|(_, (found, _))| *found == id)?;
        Some(entry(name, id, volume))
    }

    fn open(&self, id: VolumeId) -> Result<Arc<dyn Volume>, VolumeError> {
        let mut all = self.0.values();
        let found = all.find(|(found, _)| *found == id);
        found
            .map(|(_, volume)| Arc::clone(volume))
            .ok_or_else(|| VolumeErrorKind::Io.into())
    }
}
