//! The known damage of a pool, and restoring containers by parity. Scrub, repair, every commit and
//! the server call this.
//!
//! Invariant: a container is replaced only by its own original bytes, of which all sectors, regions
//! and checksums were verified, and atomically: file, sync, rename. A failure leaves the old blob.
//! A container that garbage collection deletes meanwhile stays deleted.

use super::commits::Commits;
use super::hints::{DamageHints, is_restorable, restorable};
use super::scrub::reading::verdict;
use super::storage::PoolStorage;
use chunk_store::catalog::read_quarantine;
use chunk_store::container::{RegionPlace, container_name};
use chunk_store::superblock::Notes;
use chunk_store::{Result, StoreError};
use format::container::DirectoryRegion;
use media::{Barrier, Put};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{ContainerId, Fingerprint, Generation};

/// Containers that are being replaced, by name. True: deleted meanwhile.
#[derive(Default)]
pub(super) struct Replacing(Mutex<BTreeMap<String, bool>>);

impl Replacing {
    /// Records a deletion. The caller does this before it deletes a blob.
    pub fn is_going(&self, name: &str) {
        if let Some(is_deleted) = self.0.lock().get_mut(name) {
            *is_deleted = true;
        }
    }
}

/// See the module's head.
pub struct Health {
    // Before the storage, which has the pool's lock: hints are written when they are dropped.
    hints: Arc<DamageHints>,
    storage: Arc<PoolStorage>,
    commits: Arc<Commits>,
    /// Damage that was found while opening.
    pub(super) notes: Notes,
    lost_commits: Vec<Generation>,
    pub(super) replacing: Replacing,
    /// Number of containers stored again after readers had found them damaged.
    restored: AtomicU64,
}

impl Health {
    pub(super) fn new(
        storage: &Arc<PoolStorage>,
        commits: &Arc<Commits>,
        notes: Notes,
        lost_commits: Vec<Generation>,
    ) -> Self {
        Self {
            storage: Arc::clone(storage),
            commits: Arc::clone(commits),
            notes,
            lost_commits,
            hints: DamageHints::open(&storage.media.disk, storage.id()),
            replacing: Replacing::default(),
            restored: AtomicU64::new(0),
        }
    }

    /// Returns descriptions of the damage found while opening.
    pub fn notes(&self) -> &[String] {
        &self.notes.damage
    }

    /// Returns the commits above the one that could be read. What they added is lost.
    pub fn lost_commits(&self) -> &[Generation] {
        &self.lost_commits
    }

    /// Returns why the fingerprint index could not be written, if so. It is a cache, so nothing is
    /// lost, but the next process reads directories instead and may be slow.
    pub fn index_failure(&self) -> Option<String> {
        self.storage.chunks.index.write_failure().map(str::to_owned)
    }

    /// Returns the regions and containers in quarantine: damaged when they were last read.
    pub fn quarantined(&self) -> Vec<RegionPlace> {
        self.storage
            .chunks
            .quarantine
            .places()
            .into_iter()
            .collect()
    }

    /// Stores a container again as it was written, durable on return. Returns how many of its
    /// sectors (4 KiB) were damaged. Fails with `Corruption` if parity cannot restore it. The pool
    /// must be open for writing.
    pub fn restore_container(&self, id: ContainerId) -> Result<u32> {
        self.storage.check_writable()?;
        let name = container_name(id);
        let is_another = {
            let mut replacing = self.replacing.0.lock();
            let is_another = replacing.contains_key(&name);
            // Do not overwrite a deletion that was recorded for the other thread.
            replacing.entry(name.clone()).or_insert(false);
            is_another
        };
        if is_another {
            let why = "another thread restores it";
            return Err(StoreError::corruption("container", name, why));
        }
        let restored = self.storage.containers.restore_now(id);
        let put = restored.and_then(|restored| {
            if restored.damaged > 0 {
                self.storage
                    .media
                    .blobs
                    .put(&name, restored.blob, Put::Restore)?;
            }
            Ok(restored.damaged)
        });
        let is_deleted = self.replacing.0.lock().remove(&name).unwrap_or(false);
        if is_deleted {
            self.storage.media.blobs.delete(&name)?;
        }
        let damaged = put?;
        if damaged > 0 {
            self.storage
                .media
                .blobs
                .barrier(Barrier::ContainersBeforeRoot)?;
        }
        self.storage.containers.was_put_back(id);
        self.hints.settle(&BTreeSet::from([restorable(id)]));
        self.release_restored(id);
        Ok(damaged)
    }

    /// Takes the restored container's places out of quarantine, as far as they are sound.
    fn release_restored(&self, id: ContainerId) {
        let quarantine = &self.storage.chunks.quarantine;
        let places = quarantine.places();
        for place in places.iter().filter(|place| place.container == id) {
            if place.is_whole() || self.storage.containers.region_as_stored(*place, 1).is_ok() {
                quarantine.release(*place);
            }
        }
    }

    /// Stores containers again that were restored for readers, here and in earlier processes.
    /// Returns how many. The next reader or scrub finds those that fail.
    pub fn put_back_restored(&self) -> u64 {
        if !self.storage.is_writable() {
            return 0;
        }
        let mut put_back = 0;
        let mut damaged = self.hints.restorable();
        damaged.extend(self.storage.containers.to_put_back());
        for id in damaged {
            match self.restore_container(id) {
                Ok(sectors) => put_back += u64::from(sectors > 0),
                Err(_) => self.is_not_restorable(id),
            }
            self.storage.containers.forget_damage(id);
        }
        self.restored.fetch_add(put_back, Ordering::Relaxed);
        put_back
    }

    /// Returns how many containers were stored again since the pool was opened because readers had
    /// found them damaged.
    pub fn restored_for_readers(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    /// Returns the count of containers that readers found damaged, that parity restored, and that
    /// were not stored again since. It can be read after the pool was closed.
    pub fn found_restorable(&self) -> Arc<AtomicU64> {
        self.storage.containers.restored_count()
    }

    /// Returns the damage hints of this process.
    pub fn hints(&self) -> &Arc<DamageHints> {
        &self.hints
    }

    /// Applies the hints before anything else is done with the pool: a reader avoids the places, a
    /// writer reads them.
    pub(super) fn take_up_hints(&self) {
        self.take_up(self.hints.places());
    }

    /// Applies hints that other processes, which only read, have left since. A session does so when
    /// it begins; a caller that decides earlier what must be read again calls this earlier. Does
    /// nothing in a pool that was opened for reading.
    pub fn take_up_news(&self) {
        if self.storage.is_writable() {
            self.take_up(self.hints.news());
        }
    }

    fn take_up(&self, hinted: BTreeSet<RegionPlace>) {
        let mut settled = BTreeSet::new();
        for place in hinted {
            if is_restorable(&place) {
                // The next commit stores it again, or scrub does. Readers get it by parity.
                continue;
            }
            // The next commit includes what is in quarantine already.
            let is_known =
                !self.storage.is_writable() || self.storage.chunks.quarantine.names(place);
            if !is_known {
                // If parity restores the container, the place is not damaged any more.
                let _ = self.restore_container(place.container);
            }
            let is_damaged = is_known || self.is_hint_right(place);
            match is_damaged {
                true => self.storage.chunks.put_in_quarantine(place),
                false => {
                    settled.insert(place);
                }
            }
        }
        if !settled.is_empty() {
            self.hints.settle(&settled);
        }
    }

    /// Drops the hint of a container that parity cannot restore: it was deleted, or more of it is
    /// damaged now. Puts it into quarantine if it is damaged.
    pub(super) fn is_not_restorable(&self, container: ContainerId) {
        let whole = RegionPlace::whole(container);
        if self.hints.settle(&BTreeSet::from([restorable(container)])) && self.is_hint_right(whole)
        {
            self.storage.chunks.put_in_quarantine(whole);
        }
    }

    /// From now on adds hints for everything that this process finds damaged.
    pub(super) fn tell_of_damage(&self) {
        let hints = Arc::clone(&self.hints);
        self.storage
            .chunks
            .tell_of_damage(move |place| hints.note(place));
        let hints = Arc::clone(&self.hints);
        self.storage
            .containers
            .tell_of_restored(move |id| hints.note(restorable(id)));
    }

    /// Adds hints for damaged containers that parity restores.
    pub fn note_restorable(&self, containers: impl IntoIterator<Item = ContainerId>) {
        let places = containers.into_iter().map(restorable);
        places.for_each(|place| self.hints.note(place));
    }

    /// Reads the place and returns true if it is damaged. An unreadable place counts as damaged.
    fn is_hint_right(&self, place: RegionPlace) -> bool {
        let is_known = self.commits.inventory_of(place.container);
        if is_known.as_ref().is_ok_and(Option::is_none) {
            return false;
        }
        let Ok(contents) = self.storage.containers.contents(place.container) else {
            return true;
        };
        if place.is_whole() && !contents.damage.is_empty() {
            return true;
        }
        let regions = contents.directory.regions.iter();
        let mut regions = regions.filter(|r| place.is_whole() || r.sector == place.sector);
        regions.any(|region| {
            let at = RegionPlace {
                sector: region.sector,
                ..place
            };
            !matches!(self.verify(at, region), Ok(None))
        })
    }

    /// After a commit: drops the hints that the catalog now has.
    pub(super) fn settle_hints(&self, catalog: Option<Fingerprint>) -> Result<()> {
        if self.hints.places().is_empty() {
            return Ok(());
        }
        let noted = read_quarantine(catalog, &mut self.storage.map_node())?;
        self.hints.settle(&noted);
        Ok(())
    }

    /// Returns why a region is damaged, or `None` if it has the chunks of its directory. Reads it
    /// past the system's page cache: the cache does not prove what the device has, and no reader
    /// needs a copy.
    pub(super) fn verify(
        &self,
        place: RegionPlace,
        region: &DirectoryRegion,
    ) -> Result<Option<String>> {
        let read = self
            .storage
            .containers
            .region_alone(place, region.stored_bytes);
        verdict(&self.storage.containers, read, place, region)
    }
}
