//! Creates, clones, snapshots, resizes, renames, rolls back and deletes volumes.
//!
//! The server calls this.
//! Invariant: each change is one commit: after a crash it happened completely or not at all.
//! Clones, snapshots and rollbacks cost the same for any size.

use super::checkpointer::{Driver, Entries};
use super::engine::Engine;
use super::live::LiveVolume;
use super::overlay::Overlay;
use super::registry::Registered;
use super::tally::CacheTally;
use super::{VolumeHandle, Volumes, register};
use chunk_store::catalog::Edit;
use chunk_store::recipe::hole;
use format::recipe::{Layout, ObjectRoot};
use format::reservations::ReservationsRecord;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::{VOLUME_CHUNK_LOG2, VolumeRecord};
use media::Need;
use std::sync::Arc;
use store::{Hold, Purpose};
use store::{Result, StoreError, StoreErrorKind};
use units::{SnapshotId, VolumeId};

/// A volume, for lists.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its catalog record, with the current size as length of the root.
    pub record: VolumeRecord,
    /// Pieces that are not yet applied.
    pub pieces_unapplied: u64,
    /// Where requests found their data since the volumes were opened.
    pub cache: CacheTally,
}

fn invalid(why: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

fn no_volume(name: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::NotFound,
        format!("there is no volume {name:?}"),
    )
}

impl Volumes {
    /// Returns all volumes, ordered by name.
    pub fn list(&self) -> Vec<VolumeStatus> {
        let registry = self.engine.registry.lock();
        let mut list: Vec<_> = registry
            .values()
            .map(|r| {
                let state = r.volume.state();
                let frozen = state.frozen.as_ref().map_or(0, |f| f.len());
                let mut record = r.record.clone();
                record.root.len = state.size;
                VolumeStatus {
                    record,
                    pieces_unapplied: (state.active.len() + frozen) as u64,
                    cache: r.volume.meter.read(),
                }
            })
            .collect();
        list.sort_by(|a, b| a.record.name.cmp(&b.record.name));
        list
    }

    /// Creates a volume of zeroes. `chunk_log2`: 12 to 16.
    pub fn create(&self, name: &str, size_bytes: u64, chunk_log2: u8) -> Result<VolumeHandle> {
        if !VOLUME_CHUNK_LOG2.contains(&chunk_log2) {
            return Err(invalid("the chunk size of a volume is 4 KiB to 64 KiB"));
        }
        let root = hole(size_bytes, chunk_log2);
        self.add(name, root, SnapshotId::default())
    }

    /// Creates a volume with the contents of a snapshot of an image or volume.
    pub fn clone_snapshot(&self, name: &str, snapshot: &Snapshot) -> Result<VolumeHandle> {
        expect_disk(snapshot)?;
        let _hold = self.hold_snapshot(snapshot)?;
        self.add(name, snapshot.root, snapshot.id)
    }

    /// Creates a volume with the current contents of `source`.
    pub fn clone_volume(&self, name: &str, source: &str) -> Result<VolumeHandle> {
        let source = self.registered(source)?;
        let _one = source.administer();
        let mut driver = self.engine.checkpointer.driver.lock();
        let root = self.settled_root(&mut driver, &source)?;
        self.add_with(&mut driver, name, root, SnapshotId::default())
    }

    /// Returns the contents of a volume, with everything acknowledged before the call, and a hold:
    /// they can be read until it is dropped. Writers do not wait.
    pub fn hold_contents(&self, name: &str) -> Result<(ObjectRoot, Hold)> {
        let volume = self.registered(name)?;
        let _one = volume.administer();
        let mut driver = self.engine.checkpointer.driver.lock();
        let root = self.settled_root(&mut driver, &volume)?;
        Ok((root, self.engine.backing.pool.hold()))
    }

    /// Returns the root of a volume after its writes are applied.
    fn settled_root(&self, driver: &mut Driver, volume: &Arc<LiveVolume>) -> Result<ObjectRoot> {
        if volume.state().is_dirty() {
            let checkpointer = &self.engine.checkpointer;
            checkpointer.checkpoint_of(driver, volume, None, &mut |_| Entries::default())?;
        }
        Ok(volume.state().root)
    }

    fn add(&self, name: &str, root: ObjectRoot, origin: SnapshotId) -> Result<VolumeHandle> {
        let mut driver = self.engine.checkpointer.driver.lock();
        self.add_with(&mut driver, name, root, origin)
    }

    fn add_with(
        &self,
        driver: &mut Driver,
        name: &str,
        root: ObjectRoot,
        origin: SnapshotId,
    ) -> Result<VolumeHandle> {
        if !VolumeRecord::name_is_valid(name) {
            return Err(invalid(format!("invalid name of a volume: {name:?}")));
        }
        if self.volume(name).is_some() {
            return Err(StoreError::new(
                StoreErrorKind::Exists,
                format!("volume {name:?}"),
            ));
        }
        let engine = &self.engine;
        let mut id = VolumeId::default();
        engine.backing.pool.media().random.fill(&mut id.0);
        let record = VolumeRecord {
            name: name.to_owned(),
            id,
            root,
            made: engine.backing.pool.now(),
            applied: engine.backing.journal.head(),
            origin,
            changes: 0,
        };
        commit(engine, driver, vec![put(&record)], Need::New)?;
        let registered = register(engine, record, Overlay::default());
        engine.registry.lock().insert(id, registered);
        self.volume(name).ok_or_else(|| no_volume(name))
    }

    /// Renames a volume and its snapshots in the list, in one commit. Those in the trash keep their
    /// names, as they may be of an earlier volume. Open handles keep the old name in messages, so
    /// the caller disconnects clients first. Fails with `Exists` if the new name, or a snapshot of
    /// it, exists.
    pub fn rename(&self, name: &str, new: &str) -> Result<()> {
        if !VolumeRecord::name_is_valid(new) {
            return Err(invalid(format!("invalid name of a volume: {new:?}")));
        }
        let volume = self.registered(name)?;
        let _one = volume.administer();
        let engine = &self.engine;
        let mut driver = engine.checkpointer.driver.lock();
        if self.volume(new).is_some() {
            let why = format!("volume {new:?}");
            return Err(StoreError::new(StoreErrorKind::Exists, why));
        }
        let mut record = {
            let registry = engine.registry.lock();
            let registered = registry.get(&volume.id);
            registered.ok_or_else(|| no_volume(name))?.record.clone()
        };
        new.clone_into(&mut record.name);
        let session = engine.checkpointer.session(&mut driver.session)?;
        session.set_need(Need::New);
        let pool = &engine.backing.pool;
        let result = pool.commit_with(Purpose::Volumes, |base| {
            let old = Edit {
                key: VolumeRecord::key_of(name),
                value: None,
            };
            let mut edits = vec![old, put(&record)];
            // Only now: no other commit changes the list any more.
            for mut snapshot in pool.snapshots()? {
                let is_volume = snapshot.kind == SnapshotKind::Volume;
                match snapshot.name.rsplit_once('@').filter(|_| is_volume) {
                    Some((of, _)) if of == new => {
                        let why = format!("snapshot {:?}", snapshot.name);
                        return Err(StoreError::new(StoreErrorKind::Exists, why));
                    }
                    Some((of, label)) if of == name => {
                        snapshot.name = format!("{new}@{label}");
                        edits.push(Edit {
                            key: snapshot.key(),
                            value: Some(snapshot.encode()),
                        });
                    }
                    _ => {}
                }
            }
            session.commit_more(base, edits, 0, &mut [])
        });
        session.set_need(Need::Acknowledged);
        if let Err(e) = result {
            engine.checkpointer.forget_session(&mut driver);
            return Err(e);
        }
        if let Some(registered) = engine.registry.lock().get_mut(&volume.id) {
            registered.record = record;
        }
        Ok(())
    }

    /// Deletes a volume. Its snapshots stay. Running requests fail.
    pub fn delete(&self, name: &str) -> Result<()> {
        let volume = self.registered(name)?;
        let _one = volume.administer();
        let engine = &self.engine;
        let mut driver = engine.checkpointer.driver.lock();
        let keys = [
            ReservationsRecord::key_of(volume.id),
            VolumeRecord::key_of(name),
        ];
        let edits = keys.map(|key| Edit { key, value: None });
        commit(engine, &mut driver, edits.to_vec(), Need::Deletion)?;
        engine.registry.lock().remove(&volume.id);
        let _shut = volume.shut();
        let mut state = volume.state_mut();
        state.closed = true;
        drop(state.active.take());
        (state.fresh, state.kept) = (false, None);
        drop(state);
        engine.backing.cache.forget_object(volume.object);
        Ok(())
    }

    /// Snapshots a volume as `volume@label`. The snapshot holds everything acknowledged before the
    /// call. Writers do not wait.
    pub fn snapshot(&self, name: &str, label: &str) -> Result<Snapshot> {
        self.take(name, label, true)
    }

    /// Puts the contents of a volume, as `volume@label`, where forgotten snapshots are: they can be
    /// taken back until the trash period has passed. For what is about to be removed.
    pub fn keep_in_trash(&self, name: &str, label: &str) -> Result<Snapshot> {
        self.take(name, label, false)
    }

    fn take(&self, name: &str, label: &str, lists: bool) -> Result<Snapshot> {
        let full = format!("{name}@{label}");
        if label.contains('@') || !VolumeRecord::name_is_valid(label) || label.contains('/') {
            return Err(invalid(format!("invalid name of a snapshot: {label:?}")));
        }
        let volume = self.registered(name)?;
        let _one = volume.administer();
        let engine = &self.engine;
        if self.find_snapshot(&full)?.is_some() {
            return Err(StoreError::new(
                StoreErrorKind::Exists,
                format!("snapshot {full:?}"),
            ));
        }
        let started = engine.backing.pool.now();
        let mut made = None;
        let mut driver = engine.checkpointer.driver.lock();
        let checkpointer = &engine.checkpointer;
        checkpointer.checkpoint_of(&mut driver, &volume, None, &mut |records| {
            let Some(record) = records.get_mut(&volume.id) else {
                return Entries::default();
            };
            let snapshot = Snapshot {
                name: full.clone(),
                program: concat!("quintet ", env!("CARGO_PKG_VERSION")).to_owned(),
                duration_ms: engine.backing.pool.now().0.abs_diff(started.0) / 1_000_000,
                parent: record.origin,
                ..Snapshot::new(
                    engine.backing.pool.new_snapshot_id(),
                    engine.backing.pool.now(),
                    SnapshotKind::Volume,
                    record.root,
                )
            };
            made = Some(snapshot.clone());
            let mut entries = Entries::default();
            match lists {
                true => {
                    record.origin = snapshot.id;
                    record.changes += 1;
                    entries.listed = Some(snapshot);
                }
                false => entries.trashed = Some(snapshot),
            }
            entries
        })?;
        made.ok_or_else(|| no_volume(name))
    }

    /// Returns the snapshot called `volume@label`.
    pub fn find_snapshot(&self, full: &str) -> Result<Option<Snapshot>> {
        let snapshots = self.engine.backing.pool.snapshots()?;
        let is_it = |s: &Snapshot| s.kind == SnapshotKind::Volume && s.name == full;
        Ok(snapshots.into_iter().find(is_it))
    }

    /// Changes a volume's size. New bytes are zeroes; bytes past a smaller size are lost.
    pub fn resize(&self, name: &str, size_bytes: u64) -> Result<()> {
        let volume = self.registered(name)?;
        let _one = volume.administer();
        let mut driver = self.engine.checkpointer.driver.lock();
        let mut changed = |records: &mut std::collections::BTreeMap<VolumeId, VolumeRecord>| {
            if let Some(record) = records.get_mut(&volume.id) {
                record.changes += 1;
            }
            Entries::default()
        };
        self.engine
            .checkpointer
            .checkpoint_of(&mut driver, &volume, Some(size_bytes), &mut changed)
    }

    /// Returns a volume to the state of a snapshot, including its size. Later writes are lost.
    /// Writers wait for one commit.
    pub fn rollback(&self, name: &str, snapshot: &Snapshot) -> Result<()> {
        expect_disk(snapshot)?;
        let volume = self.registered(name)?;
        if snapshot.root.layout != Layout::Fixed(volume.log2) {
            return Err(invalid(
                "the snapshot has another chunk size than the volume",
            ));
        }
        let _hold = self.hold_snapshot(snapshot)?;
        let _one = volume.administer();
        let engine = &self.engine;
        let mut driver = engine.checkpointer.driver.lock();
        // A running checkpoint would restore what the rollback discards. It is aborted and not
        // finished: current writes may lie over damage, and a rollback must not depend on them.
        engine.checkpointer.give_up_round(&mut driver);
        let _shut = volume.shut();
        let mut record = {
            let registry = engine.registry.lock();
            let registered: Option<&Registered> = registry.get(&volume.id);
            registered.ok_or_else(|| no_volume(name))?.record.clone()
        };
        record.root = snapshot.root;
        record.applied = engine.backing.journal.head();
        record.origin = snapshot.id;
        record.changes += 1;
        commit(engine, &mut driver, vec![put(&record)], Need::Deletion)?;
        volume.state_mut().aliasing = false;
        engine.backing.cache.forget_object(volume.object);
        let mut state = volume.state_mut();
        state.size = record.root.len;
        state.root = record.root;
        drop(state.active.take());
        state.aliasing = true;
        (state.fresh, state.kept) = (false, None);
        drop(state);
        engine.checkpointer.count_kept();
        if let Some(registered) = engine.registry.lock().get_mut(&volume.id) {
            registered.record = record;
        }
        Ok(())
    }

    /// Holds what a snapshot refers to until a volume refers to it. Fails with `NotFound` if the
    /// snapshot was forgotten.
    fn hold_snapshot(&self, snapshot: &Snapshot) -> Result<Hold> {
        let pool = &self.engine.backing.pool;
        let hold = pool.hold();
        match pool.has_key(pool.record().catalog, &snapshot.key())? {
            true => Ok(hold),
            false => Err(StoreError::new(
                StoreErrorKind::NotFound,
                format!("there is no snapshot {}", snapshot.id),
            )),
        }
    }

    fn registered(&self, name: &str) -> Result<Arc<LiveVolume>> {
        let registry = self.engine.registry.lock();
        let found = registry.values().find(|r| r.record.name == name);
        found
            .map(|r| Arc::clone(&r.volume))
            .ok_or_else(|| no_volume(name))
    }
}

fn expect_disk(snapshot: &Snapshot) -> Result<()> {
    let is_disk = matches!(snapshot.kind, SnapshotKind::Image | SnapshotKind::Volume);
    match snapshot.root.layout {
        Layout::Fixed(log2) if is_disk && VOLUME_CHUNK_LOG2.contains(&log2) => Ok(()),
        _ => Err(invalid(
            "only a snapshot of an image or a volume can become a volume",
        )),
    }
}

fn put(record: &VolumeRecord) -> Edit {
    Edit {
        key: record.key(),
        value: Some(record.encode()),
    }
}

/// Commits without a checkpoint.
pub(crate) fn commit(
    engine: &Engine,
    driver: &mut Driver,
    edits: Vec<Edit>,
    need: Need,
) -> Result<()> {
    let session = engine.checkpointer.session(&mut driver.session)?;
    session.set_need(need);
    let entries = Entries {
        edits,
        ..Entries::default()
    };
    let result = engine.checkpointer.commit(session, entries, None);
    session.set_need(Need::Acknowledged);
    if result.is_err() {
        engine.checkpointer.forget_session(driver);
    }
    result.map(drop)
}
