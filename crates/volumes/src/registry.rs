//! Registry of open volumes, by id.
//!
//! Checkpoints and administration call this.
//! Invariant: each record here is the committed one. The lock is held for a moment; no holder waits
//! for a volume's gate.

use super::live::LiveVolume;
use format::volume::VolumeRecord;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{JournalPosition, VolumeId};

/// A record of the catalog and its open volume.
pub(super) struct Registered {
    pub record: VolumeRecord,
    pub volume: Arc<LiveVolume>,
}

/// The open volumes. See the module's head.
#[derive(Default)]
pub(super) struct Registry {
    volumes: Mutex<BTreeMap<VolumeId, Registered>>,
}

impl Registry {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, Registered>> {
        self.volumes.lock()
    }

    /// Returns the volumes that are open at this moment.
    pub fn volumes(&self) -> Vec<Arc<LiveVolume>> {
        let volumes = self.volumes.lock();
        volumes.values().map(|r| Arc::clone(&r.volume)).collect()
    }

    /// Returns the volume's name, or its id if it was deleted.
    pub fn name_of(&self, id: &VolumeId) -> String {
        let registry = self.volumes.lock();
        let name = registry.get(id).map(|r| r.record.name.clone());
        name.unwrap_or_else(|| id.to_string())
    }

    /// Returns the lowest journal position that replay needs once the frozen writes below `head`
    /// are applied. A write may have a position below `head` and not be in its overlay yet: this
    /// waits for it.
    pub fn needed_from(&self, head: JournalPosition) -> JournalPosition {
        let first = |volume: Arc<LiveVolume>| {
            drop(volume.shut());
            volume.state().active.first_position()
        };
        self.volumes()
            .into_iter()
            .filter_map(first)
            .fold(head, Ord::min)
    }
}
