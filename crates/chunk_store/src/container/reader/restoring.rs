//! Containers as parity restores them from what the device gives: in memory, for who reads now.
//!
//! Invariant: nothing is written here, and nothing is served from a restored container that was not
//! verified like any other stored bytes. What was restored is remembered until somebody who may write
//! puts it back. Memory is bounded: a few containers are kept. No lock is held while reading.
//! Called by the container reader after a read that failed, and by who repairs.

use super::{
    ContainerReader, Copies, Region, RegionPlace, Shape, container_name, header_of, unreadable,
    verify_stored,
};
use crate::error::{Result, StoreError};
use format::container::{
    CONTAINER_BYTES_MAX, DIRECTORY_INDEX, HEADER_BYTES, REGION_HEADER_BYTES, RegionHeader,
    SECTOR_BYTES,
};
use format::parity::{NotRestored, PARITY_SECTOR_BYTES, Restored, damaged_in_section, restore};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{ContainerId, Fingerprint};

/// Restored containers that are kept: readers go on in the one that they are in.
const KEPT_MAX: usize = 2;
/// Containers of which it is remembered that nothing could be done.
const HOPELESS_MAX: usize = 4096;
/// Bytes of one read; where it fails, sector by sector.
const READ_BYTES: usize = 256 << 10;
/// Sectors that the device may refuse before the container is given up: it takes its time over each.
const UNREAD_MAX: usize = 512;

/// See the module's head.
#[derive(Default)]
pub(super) struct RestoredContainers(Mutex<Remembered>, Arc<AtomicU64>, OnceLock<Noticed>);

/// Told of a container that is damaged and was restored.
type Noticed = Box<dyn Fn(ContainerId) + Send + Sync>;

#[derive(Default)]
struct Remembered {
    kept: Vec<(ContainerId, Arc<Vec<u8>>)>,
    hopeless: BTreeSet<ContainerId>,
    /// Damaged sectors of those that nobody has put back yet.
    damaged: BTreeMap<ContainerId, u32>,
}

/// What the device gives of a container.
struct Given {
    bytes: Vec<u8>,
    unread: BTreeSet<u32>,
}

impl ContainerReader {
    /// A container as it was written, from what is left of it; `None` when that cannot be had.
    pub fn restored(&self, id: ContainerId) -> Option<Arc<Vec<u8>>> {
        {
            let remembered = self.restored.0.lock();
            let kept = remembered.kept.iter().find(|(kept, _)| *kept == id);
            if let Some((_, blob)) = kept {
                return Some(Arc::clone(blob));
            }
            if remembered.hopeless.contains(&id) {
                return None;
            }
        }
        let restored = self.restore_now(id);
        let mut remembered = self.restored.0.lock();
        let Ok(Restored { blob, damaged }) = restored else {
            if remembered.hopeless.len() >= HOPELESS_MAX {
                remembered.hopeless.clear();
            }
            remembered.hopeless.insert(id);
            return None;
        };
        let is_news = damaged > 0 && remembered.damaged.insert(id, damaged).is_none();
        let blob = Arc::new(blob);
        remembered.kept.insert(0, (id, Arc::clone(&blob)));
        remembered.kept.truncate(KEPT_MAX);
        drop(remembered);
        if is_news {
            self.restored.1.fetch_add(1, Ordering::Relaxed);
            if let Some(notice) = self.restored.2.get() {
                notice(id);
            }
        }
        Some(blob)
    }

    /// Calls `notice` for each container that is restored for a reader from now on; of several, the first.
    pub fn tell_of_restored(&self, notice: impl Fn(ContainerId) + Send + Sync + 'static) {
        let _ = self.restored.2.set(Box::new(notice));
    }

    /// The same from the device, whatever is remembered. `Corruption` says why it cannot be.
    pub fn restore_now(&self, id: ContainerId) -> Result<Restored> {
        let at = || container_name(id);
        let cannot = |why: NotRestored| StoreError::corruption("container", at(), why);
        // Most that is damaged in a pool without parity need not be read for this.
        if let Ok(shape) = self.read_shape_as_stored(id, &mut Vec::new(), Copies::Nowhere)
            && shape.header.parity.is_none()
        {
            return Err(cannot(NotRestored::NoParity));
        }
        let given = self.given(id)?;
        let is_read = |sector| !given.unread.contains(&sector);
        let restored = restore(self.pool, id, &given.bytes, &is_read).map_err(cannot)?;
        match is_whole(id, &restored.blob) {
            true => Ok(restored),
            false => Err(cannot(NotRestored::Inconsistent)),
        }
    }

    /// Reads all of a container past the system's cache: what that remembers is not what the device has.
    fn given(&self, id: ContainerId) -> Result<Given> {
        let name = container_name(id);
        let len = self.stored_len(id)?.min(CONTAINER_BYTES_MAX.into());
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let mut unread = BTreeSet::new();
        let mut at = 0u64;
        for piece in bytes.chunks_mut(READ_BYTES) {
            if self.blobs.read_range_past_cache(&name, at, piece).is_err() {
                let mut start = at;
                for sector in piece.chunks_mut(PARITY_SECTOR_BYTES) {
                    let read = self.blobs.read_range_past_cache(&name, start, sector);
                    if let Err(e) = read {
                        unread.insert((start / PARITY_SECTOR_BYTES as u64) as u32);
                        if unread.len() > UNREAD_MAX {
                            return Err(unreadable(&name, e));
                        }
                    }
                    start += sector.len() as u64;
                }
            }
            at += piece.len() as u64;
        }
        Ok(Given { bytes, unread })
    }

    /// How many sectors of checksums and parity are damaged, read from the device; 0 where there is
    /// no parity.
    pub fn damaged_parity(&self, id: ContainerId) -> Result<u32> {
        let shape = self.shape(id)?;
        let Some(parity) = shape.header.parity else {
            return Ok(0);
        };
        let name = container_name(id);
        let section = parity.blob_bytes().saturating_sub(parity.section_at());
        let mut bytes = vec![0; section];
        let mut at = parity.section_at() as u64;
        let mut damaged = 0;
        for piece in bytes.chunks_mut(READ_BYTES) {
            // What is not read stays zero, and is damaged.
            let read = self.blobs.read_range_past_cache(&name, at, piece);
            damaged += u32::from(read.is_err());
            at += piece.len() as u64;
        }
        let found = damaged_in_section(self.pool, id, parity, &bytes);
        Ok(damaged.max(found))
    }

    /// The same in words.
    pub fn parity_trouble(&self, id: ContainerId) -> Result<Option<String>> {
        let damaged = self.damaged_parity(id)?;
        let words = || format!("container {id}: {damaged} sectors of its parity are damaged");
        Ok((damaged > 0).then(words))
    }

    /// A region of a restored container. `None` when there is none, or it is as bad as the stored one.
    pub(super) fn restored_region(
        &self,
        place: RegionPlace,
        only: Option<&Fingerprint>,
    ) -> Option<Region> {
        let (shape, header, stored) = self.restored_bytes(place)?;
        self.decoded(&shape, &header, place, stored, only).ok()
    }

    /// The stored bytes of a region of a restored container, checked.
    pub(super) fn restored_bytes(
        &self,
        place: RegionPlace,
    ) -> Option<(Arc<Shape>, RegionHeader, Vec<u8>)> {
        let blob = self.restored(place.container)?;
        let shape = Arc::new(self.shape_of(place.container, &blob).ok()?);
        let start = (place.sector as usize).checked_mul(SECTOR_BYTES as usize)?;
        let rest = blob.get(start..)?;
        let header = header_of(place, rest).ok()?;
        let need = REGION_HEADER_BYTES.checked_add(header.stored_bytes as usize)?;
        let bytes = rest.get(..need)?;
        verify_stored(place, &header, bytes).ok()?;
        Some((shape, header, bytes.to_vec()))
    }

    /// The shape as a restored container's header says it.
    pub(super) fn shape_of(&self, id: ContainerId, blob: &[u8]) -> Result<Shape> {
        let head = blob.get(..HEADER_BYTES).unwrap_or_default();
        let header = self.check_end(id, head, false)?;
        Ok(self.shape_with(header))
    }

    /// Containers that were restored for readers, and not put back since.
    pub fn to_put_back(&self) -> Vec<ContainerId> {
        let remembered = self.restored.0.lock();
        remembered.damaged.keys().copied().collect()
    }

    /// How many containers were restored for readers and not put back: for who asks when the reader is gone.
    pub fn restored_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.restored.1)
    }

    /// It is stored again as it was written.
    pub fn was_put_back(&self, id: ContainerId) {
        if self.restored.0.lock().damaged.contains_key(&id) {
            self.restored.1.fetch_sub(1, Ordering::Relaxed);
        }
        self.forget_damage(id);
    }

    /// Something was done about the container: nothing that is remembered of it counts.
    pub fn forget_damage(&self, id: ContainerId) {
        self.shapes.lock().remove(&id);
        let mut remembered = self.restored.0.lock();
        remembered.kept.retain(|(kept, _)| *kept != id);
        remembered.hopeless.remove(&id);
        remembered.damaged.remove(&id);
    }
}

/// True when regions follow each other from the header to the directory, each whole by its checksum.
fn is_whole(id: ContainerId, blob: &[u8]) -> bool {
    let mut sector = 1u32;
    loop {
        let place = RegionPlace {
            container: id,
            sector,
        };
        let start = sector as usize * SECTOR_BYTES as usize;
        let Some(rest) = blob.get(start..) else {
            return false;
        };
        let Ok(header) = header_of(place, rest) else {
            return false;
        };
        let need = REGION_HEADER_BYTES.saturating_add(header.stored_bytes as usize);
        let bytes = rest.get(..need);
        if bytes.is_none_or(|bytes| verify_stored(place, &header, bytes).is_err()) {
            return false;
        }
        if header.index == DIRECTORY_INDEX {
            return true;
        }
        sector = sector.saturating_add(header.sectors().max(1));
    }
}
