//! Opening a pool: the newest root, the index, and what a crashed writer left.
//!
//! Invariant: no manual step, ever. Containers above the root's marks are adopted when they are
//! whole (and so reused by the next run), left alone when they are not. A missing, stale or
//! foreign index is filled from directories. Called by pool.

use crate::catalog::InventoryEntry;
use crate::chunk_map::ChunkMap;
use crate::container::{ContainerReader, RegionPlace, container_name, visit_containers};
use crate::error::Result;
use crate::index::FingerprintIndex;
use crate::superblock::Notes;
use format::root::RootRecord;
use media::{Media, MediaErrorKind};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{ContainerId, PoolId, WriterId};

/// Where the index lies in the pool.
const INDEX_PATH: &str = "cache/fpi";
/// Our number while there is one writer.
pub(crate) const WRITER: WriterId = WriterId(1);

/// Shares of the memory budget, in sixteenths; the rest is the read cache.
const INDEX_SHARE: usize = 3;
const DIRECTORY_SHARE: usize = 3;

/// The index with everything in it that the root can reach.
pub(crate) fn open_index(
    media: &Media,
    pool: PoolId,
    record: &RootRecord,
    containers: &Arc<ContainerReader>,
    memory_bytes: usize,
    writable: bool,
) -> Result<Arc<ChunkMap>> {
    let share = |n: usize| memory_bytes / 16 * n;
    let opened = if writable {
        match media.disk.make_dir("cache") {
            Ok(_) => {}
            Err(e) if e.kind == MediaErrorKind::Exists => {}
            Err(e) => return Err(e.into()),
        }
        FingerprintIndex::open(
            Arc::clone(&media.disk),
            INDEX_PATH,
            pool,
            share(INDEX_SHARE),
        )?
    } else {
        FingerprintIndex::open_read_only(
            Arc::clone(&media.disk),
            INDEX_PATH,
            pool,
            share(INDEX_SHARE),
        )?
    };
    // An index from another time may claim containers that this root does not have.
    let ahead =
        |w: &WriterId, next: &u64| record.next_sequence.get(w).copied().unwrap_or(0) < *next;
    let foreign = opened.coverage.iter().any(|(w, next)| ahead(w, next));
    let covered = if foreign {
        BTreeMap::new()
    } else {
        opened.coverage
    };
    let map = ChunkMap::new(opened.index, Arc::clone(containers), share(DIRECTORY_SHARE));
    if record
        .next_sequence
        .iter()
        .any(|(w, next)| covered.get(w).copied().unwrap_or(0) < *next)
    {
        map.enter_from(&covered)?;
    }
    Ok(Arc::new(map))
}

/// Bytes left for decoded regions.
pub(crate) fn read_cache_bytes(memory_bytes: usize) -> usize {
    memory_bytes / 16 * (16 - INDEX_SHARE - DIRECTORY_SHARE)
}

/// Containers that the root does not know, found whole after a crash.
pub(crate) struct Adopted {
    pub entries: Vec<InventoryEntry>,
    /// First free number of this writer.
    pub next_sequence: u64,
}

/// Finds what crashed sessions stored. Each container is read and verified in full before
/// anything may be deduplicated against it, and counts among what the next barrier makes durable.
pub(crate) fn adopt(
    media: &Media,
    record: &RootRecord,
    containers: &ContainerReader,
    chunks: &ChunkMap,
    notes: &mut Notes,
) -> Result<Adopted> {
    let known = record.next_sequence.get(&WRITER).copied().unwrap_or(0);
    let mut adopted = Adopted {
        entries: Vec::new(),
        next_sequence: known,
    };
    let mut from = record.next_sequence.clone();
    from.insert(WRITER, known);
    visit_containers(&*media.blobs, &from, &mut |id| {
        if id.writer() != WRITER {
            return Ok(ControlFlow::Continue(()));
        }
        adopted.next_sequence = adopted.next_sequence.max(id.sequence() + 1);
        match verify_whole(containers, id) {
            Ok(entry) => {
                let contents = containers.contents(id)?;
                chunks.enter(id, &contents.directory)?;
                media.blobs.adopt(&container_name(id));
                adopted.entries.push(entry);
            }
            Err(e) if e.is_corruption() => {
                notes.push(format!(
                    "container {id} of an unfinished run is not used: {e}"
                ));
            }
            Err(e) => return Err(e),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(adopted)
}

/// Reads a container in full: directory, every region, every chunk.
fn verify_whole(containers: &ContainerReader, id: ContainerId) -> Result<InventoryEntry> {
    let contents = containers.contents(id)?;
    if let Some(damage) = contents.damage.first() {
        return Err(crate::error::StoreError::corruption(
            "container",
            id,
            damage,
        ));
    }
    for region in &contents.directory.regions {
        let place = RegionPlace {
            container: id,
            sector: region.sector,
        };
        let decoded = containers.region(place, 1)?;
        let same = decoded.chunks.iter().map(|(f, _, len)| (f, len));
        if !same.eq(region.chunks.iter().map(|(f, len)| (f, len))) {
            return Err(crate::error::StoreError::corruption(
                "region",
                format!("{id} sector {}", region.sector),
                "differs from its directory",
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
