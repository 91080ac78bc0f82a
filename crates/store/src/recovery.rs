//! Opens a pool: finds the newest root, opens the index, and adopts containers of a crashed writer.
//! The pool calls this.
//!
//! ```text
//! newest readable root -> its catalog readable? -> index complete? -> adopt containers
//!        \ no: the commit before it                 \ no: read directories
//! ```
//!
//! Invariant: no manual step is needed, ever. If a commit or its catalog cannot be read, the pool
//! opens at the commit before it and reports the loss. Containers above the root's marks are
//! adopted if they are sound, so that the next run reuses them, and put into quarantine otherwise.
//! A missing, stale or foreign index is filled from directories.

use crate::budget::PoolMemory;
use chunk_store::catalog::{InventoryEntry, visit};
use chunk_store::chunk_map::{ChunkMap, FORWARD_WRITERS};
use chunk_store::container::{ContainerReader, RegionPlace, container_name, visit_containers};
use chunk_store::index::FingerprintIndex;
use chunk_store::superblock::{MasterKey, Newest, Notes, newest_root};
use chunk_store::{Result, StoreError};
use format::config::Seal;
use format::root::RootRecord;
use media::Media;
use read_path::Reader;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{ContainerId, Fingerprint, Generation, PoolId, WriterId};

/// Path of the index in the pool.
const INDEX_PATH: &str = "cache/fpi";
/// Writer numbers of this program: backups and short commits, checkpoints of volumes, large writes
/// to volumes, garbage collection, defragmentation. Their sessions overlap, so each has its own
/// sequence of containers.
pub(crate) const WRITERS: [WriterId; 5] = [
    WriterId(1),
    WriterId(2),
    WriterId(3),
    FORWARD_WRITERS[0],
    FORWARD_WRITERS[1],
];

/// Facts with which a pool is opened.
pub(crate) struct Basis {
    pub media: Media,
    pub pool: PoolId,
    pub master: MasterKey,
    pub seal: Seal,
    pub containers: Arc<ContainerReader>,
    pub memory: PoolMemory,
    pub writable: bool,
}

/// A commit with its index and reader.
pub(crate) struct Opened {
    pub newest: Newest,
    pub chunks: Arc<ChunkMap>,
    pub reader: Arc<Reader>,
}

impl Basis {
    /// Returns the newest commit that can be read, with a catalog that is readable where the next
    /// commit writes. Returns `None` if no commit was ever made.
    pub fn open_newest(&self, notes: &mut Notes) -> Result<Option<Opened>> {
        let Some(newest) = self.root_below(None, notes)? else {
            return Ok(None);
        };
        let (mut opened, ahead) = self.open_commit(newest)?;
        // The index learns only of durable commits. But a reader may have read the root before the
        // writer committed.
        if ahead && opened.newest.unreadable.is_empty() && self.is_newest(&opened.newest)? {
            let lost = self.generation_above(&opened.newest)?;
            notes.push(format!("commit {lost} is in the index and has no root"));
            opened.newest.unreadable.push(lost);
        }
        let Some(damage) = self.catalog_damage(&opened)? else {
            return Ok(Some(opened));
        };
        let newest = opened.newest;
        drop((opened.chunks, opened.reader));
        let found = self.older_commit(&newest, damage, notes)?;
        match found {
            Some(older) => Ok(Some(older)),
            // There is nothing better. Serve what is readable of it.
            None => Ok(Some(self.open_commit(newest)?.0)),
        }
    }

    /// Returns the newest commit before `newest` with a readable catalog.
    fn older_commit(
        &self,
        newest: &Newest,
        mut damage: StoreError,
        notes: &mut Notes,
    ) -> Result<Option<Opened>> {
        let mut tried = Notes::new();
        let mut lost = newest.unreadable.clone();
        let mut generation = newest.generation;
        loop {
            tried.push(format!("catalog of commit {generation}: {damage}"));
            lost.push(generation);
            let Some(mut older) = self.root_below(Some(generation), &mut tried)? else {
                return Ok(None);
            };
            if older.record.catalog.is_none() {
                return Ok(None);
            }
            lost.append(&mut older.unreadable);
            generation = older.generation;
            let (mut opened, _) = self.open_commit(older)?;
            match self.catalog_damage(&opened)? {
                Some(e) => damage = e,
                None => {
                    notes.append(tried);
                    opened.newest.unreadable = lost;
                    return Ok(Some(opened));
                }
            }
        }
    }

    fn is_newest(&self, newest: &Newest) -> Result<bool> {
        let now = self.root_below(None, &mut Notes::new())?;
        Ok(now.is_none_or(|now| now.generation_highest == newest.generation_highest))
    }

    fn root_below(&self, limit: Option<Generation>, notes: &mut Notes) -> Result<Option<Newest>> {
        let sealing = (&self.master, self.seal);
        newest_root(&self.media, self.pool, sealing, limit, notes)
    }

    /// Opens index and reader of a commit. Returns true if the index belongs to a later commit.
    fn open_commit(&self, newest: Newest) -> Result<(Opened, bool)> {
        let (chunks, ahead) = open_index(
            &self.media,
            self.pool,
            &newest.record,
            &self.containers,
            &self.memory,
            self.writable,
        )?;
        let reader = Reader::new(
            Arc::clone(&chunks),
            Arc::clone(&self.containers),
            self.memory.regions,
        );
        let opened = Opened {
            newest,
            chunks,
            reader: Arc::new(reader),
        };
        Ok((opened, ahead))
    }

    /// Returns why the paths to the last container, snapshot and volume cannot be read, or `None`
    /// if they can. Every commit rewrites such paths, and a commit on top needs them.
    fn catalog_damage(&self, opened: &Opened) -> Result<Option<StoreError>> {
        let catalog = opened.newest.record.catalog;
        for past_the_last in [b"d", b"t", b"w"] {
            let mut load = |f: &Fingerprint| opened.reader.map_node(f);
            match visit(catalog, past_the_last, &mut load, &mut |_, _| {
                Ok(ControlFlow::Break(()))
            }) {
                // The device may read it again later. A writer must not commit past it.
                Err(StoreError {
                    source: Some(e), ..
                }) if self.writable => return Err(e.into()),
                Err(e) if e.is_corruption() => return Ok(Some(e)),
                result => result.map(drop)?,
            }
        }
        Ok(None)
    }

    /// Returns the highest generation in the headers of containers above this commit's marks.
    fn generation_above(&self, newest: &Newest) -> Result<Generation> {
        let mut highest = newest.generation.next();
        let from = &newest.record.next_sequence;
        visit_containers(&*self.media.blobs, from, &mut |id| {
            if let Ok(shape) = self.containers.shape(id) {
                highest = highest.max(shape.header.generation);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(highest)
    }
}

/// Opens the index and completes it with everything that the root reaches. Returns true if the file
/// belongs to a later commit.
fn open_index(
    media: &Media,
    pool: PoolId,
    record: &RootRecord,
    containers: &Arc<ContainerReader>,
    memory: &PoolMemory,
    writable: bool,
) -> Result<(Arc<ChunkMap>, bool)> {
    let (disk, share_bytes) = (Arc::clone(&media.disk), memory.index);
    let opened = if writable {
        // Without its directory there is no index file. That must not prevent a backup.
        let _ = media.disk.make_dir("cache");
        FingerprintIndex::open(disk, INDEX_PATH, pool, share_bytes)
    } else {
        FingerprintIndex::open_read_only(disk, INDEX_PATH, pool, share_bytes)
    };
    // An index of another time may cover containers that this root does not have.
    let ahead =
        |w: &WriterId, next: &u64| record.next_sequence.get(w).copied().unwrap_or(0) < *next;
    let foreign = opened.coverage.iter().any(|(w, next)| ahead(w, next));
    let covered = if foreign {
        BTreeMap::new()
    } else {
        opened.coverage
    };
    let map = ChunkMap::new(
        opened.index,
        Arc::clone(containers),
        memory.directories,
        memory.claims / 2,
    );
    if record
        .next_sequence
        .iter()
        .any(|(w, next)| covered.get(w).copied().unwrap_or(0) < *next)
    {
        map.enter_from(&covered)?;
    }
    Ok((Arc::new(map), foreign))
}

/// A writer's containers that its root does not know.
pub(crate) struct Left {
    /// Their numbers, ascending, and lengths in bytes.
    pub containers: Vec<(ContainerId, u64)>,
    /// First free container number of this writer.
    pub next_sequence: u64,
}

/// Lists the containers of a writer's crashed sessions.
pub(crate) fn left_by(media: &Media, writer: WriterId, record: &RootRecord) -> Result<Left> {
    let known = record.next_sequence.get(&writer).copied().unwrap_or(0);
    let mut left = Left {
        containers: Vec::new(),
        next_sequence: known,
    };
    // Skip the other writers without listing their containers.
    let mut from = record.next_sequence.clone();
    for other in WRITERS {
        from.insert(other, u64::MAX);
    }
    from.insert(writer, known);
    visit_containers(&*media.blobs, &from, &mut |id| {
        if id.writer() == writer {
            left.next_sequence = left.next_sequence.max(id.sequence() + 1);
            left.containers.push((id, 0));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for (id, bytes) in &mut left.containers {
        // One that cannot be looked at is reported when it is read.
        *bytes = media.blobs.len(&container_name(*id)).unwrap_or(0);
    }
    Ok(left)
}

/// Verifies a container of a crashed session completely, before new data may be deduplicated
/// against it. The next barrier makes its name durable. Returns `None` if it is not sound. A dry
/// run has dropped the payload of a container that it put (`is_described_only`): only what it kept
/// is verified.
pub(crate) fn adopt(
    media: &Media,
    id: ContainerId,
    is_described_only: bool,
    containers: &ContainerReader,
    chunks: &ChunkMap,
    notes: &mut Notes,
) -> Result<Option<InventoryEntry>> {
    match verify_whole(containers, id, is_described_only) {
        Ok(entry) => {
            let contents = containers.contents(id)?;
            chunks.enter(id, &contents.directory)?;
            media.blobs.adopt(&container_name(id));
            Ok(Some(entry))
        }
        Err(e) if e.is_corruption() => {
            // The marks of the next commit will be above it.
            chunks.put_in_quarantine(RegionPlace::whole(id));
            notes.push(format!(
                "container {id} of an interrupted run is ignored: {e}"
            ));
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Verifies a container completely: directory, every region, every chunk. Of one that is described
/// only, verifies the directory.
fn verify_whole(
    containers: &ContainerReader,
    id: ContainerId,
    is_described_only: bool,
) -> Result<InventoryEntry> {
    let contents = containers.contents(id)?;
    if let Some(damage) = contents.damage.first() {
        return Err(StoreError::corruption("container", id, damage));
    }
    let regions = contents.directory.regions.iter();
    for region in regions.filter(|_| !is_described_only) {
        let place = RegionPlace {
            container: id,
            sector: region.sector,
        };
        let decoded = containers.region(place, 1)?;
        let same = decoded.chunks.iter().map(|(f, _, len)| (f, len));
        if !same.eq(region.chunks.iter().map(|(f, len)| (f, len))) {
            return Err(StoreError::corruption(
                "region",
                format!("{id} sector {}", region.sector),
                "it differs from its directory",
            ));
        }
    }
    let shape = containers.shape(id)?;
    Ok(InventoryEntry {
        id,
        class: contents.class,
        blob_bytes: shape.header.blob_bytes.into(),
    })
}
