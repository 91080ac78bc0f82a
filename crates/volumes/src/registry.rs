//! The volumes that are open, by id.
//!
//! Invariant: a record here is the one that is committed. The lock is held for a moment; behind it
//! nobody waits for a volume's gate. Called by rounds and where names of volumes change.

use super::live::LiveVolume;
use format::volume::VolumeRecord;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{JournalPosition, VolumeId};

/// A record of the catalog, and the volume that it is of.
pub(super) struct Registered {
    pub record: VolumeRecord,
    pub volume: Arc<LiveVolume>,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Registry {
    volumes: Mutex<BTreeMap<VolumeId, Registered>>,
}

impl Registry {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, Registered>> {
        self.volumes.lock()
    }

    /// All of this moment.
    pub fn volumes(&self) -> Vec<Arc<LiveVolume>> {
        let volumes = self.volumes.lock();
        volumes.values().map(|r| Arc::clone(&r.volume)).collect()
    }

    /// The volume's name; its id when it was deleted.
    pub fn name_of(&self, id: &VolumeId) -> String {
        let registry = self.volumes.lock();
        let name = registry.get(id).map(|r| r.record.name.clone());
        name.unwrap_or_else(|| id.to_string())
    }

    /// Lowest position that replay needs, once everything below `head` that is frozen now is folded.
    /// A write may have its position below `head` and not be in its overlay yet: it is waited for.
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
