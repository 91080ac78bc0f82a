//! Restores containers by parity, in memory. The container reader calls this after a failed read,
//! and so does repair.
//!
//! ```text
//! failed read -> whole container past the cache -> parity -> checked blob, kept in memory
//! ```
//!
//! Invariant: nothing is written here. Nothing from a restored container is returned before it
//! passed the same checks as stored bytes. A restored container is remembered until a writer stores
//! it again. Memory is bounded: few containers are kept. No lock is held during a read.

use super::{
    ContainerReader, Copies, Region, RegionPlace, Shape, container_name, header_of, unreadable,
    verify_stored,
};
use crate::error::{Result, StoreError};
use format::container::{
    CONTAINER_BYTES_MAX, DIRECTORY_INDEX, HEADER_BYTES, RegionHeader, SECTOR_BYTES, next_region,
};
use format::parity::{NotRestored, PARITY_SECTOR_BYTES, Restored, damaged_in_section, restore};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{ContainerId, Fingerprint};

/// Maximum number of restored containers in memory: readers stay in one for a while.
const KEPT_MAX: usize = 2;
/// Maximum number of containers that are remembered as not restorable.
const HOPELESS_MAX: usize = 4096;
/// Size of one read, bytes. Where it fails, each sector is read alone.
const READ_BYTES: usize = 256 << 10;
/// Number of unreadable sectors after which the container is given up: a device may take long for
/// each.
const UNREAD_MAX: usize = 512;

/// See the module's head.
#[derive(Default)]
pub(super) struct RestoredContainers(Mutex<Remembered>, Arc<AtomicU64>, OnceLock<Noticed>);

/// Called with each damaged container that was restored.
type Noticed = Box<dyn Fn(ContainerId) + Send + Sync>;

#[derive(Default)]
struct Remembered {
    kept: Vec<(ContainerId, Arc<Vec<u8>>)>,
    hopeless: BTreeSet<ContainerId>,
    /// Number of damaged sectors of restored containers that no writer has stored again yet.
    damaged: BTreeMap<ContainerId, u32>,
}

/// The readable bytes of a container.
struct Given {
    bytes: Vec<u8>,
    unread: BTreeSet<u32>,
}

impl ContainerReader {
    /// Returns a container as it was written, restored by parity, or `None` if parity cannot
    /// restore it. May be cached.
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

    /// Sets a function that is called for each container that is restored for a reader from now on.
    /// Only the first call has an effect.
    pub fn tell_of_restored(&self, notice: impl Fn(ContainerId) + Send + Sync + 'static) {
        let _ = self.restored.2.set(Box::new(notice));
    }

    /// Like [`Self::restored`], always from the device. Fails with `Corruption` if parity cannot
    /// restore it.
    pub fn restore_now(&self, id: ContainerId) -> Result<Restored> {
        let at = || container_name(id);
        let cannot = |why: NotRestored| StoreError::corruption("container", at(), why);
        // In a pool without parity this saves reading most damaged containers.
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

    /// Reads a whole container past the system's cache, because the cache does not prove what the
    /// device has.
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

    /// Reads the parity section from the device. Returns how many of its sectors are damaged; 0
    /// without parity.
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
            // An unread piece stays zero, so its sectors count as damaged.
            let read = self.blobs.read_range_past_cache(&name, at, piece);
            damaged += u32::from(read.is_err());
            at += piece.len() as u64;
        }
        let found = damaged_in_section(self.pool, id, parity, &bytes);
        Ok(damaged.max(found))
    }

    /// Describes damaged parity; `None` if there is no damage.
    pub fn parity_trouble(&self, id: ContainerId) -> Result<Option<String>> {
        let damaged = self.damaged_parity(id)?;
        let words = || format!("container {id}: damaged parity sectors: {damaged}");
        Ok((damaged > 0).then(words))
    }

    /// Returns a region of a restored container. Returns `None` if the container cannot be
    /// restored, or if the restored region is bad too.
    pub(super) fn restored_region(
        &self,
        place: RegionPlace,
        only: Option<&Fingerprint>,
    ) -> Option<Region> {
        let (shape, header, stored) = self.restored_bytes(place)?;
        self.decoded(&shape, &header, place, stored, only).ok()
    }

    /// Returns the stored bytes of a region of a restored container, with a good checksum.
    pub(super) fn restored_bytes(
        &self,
        place: RegionPlace,
    ) -> Option<(Arc<Shape>, RegionHeader, Vec<u8>)> {
        let blob = self.restored(place.container)?;
        let shape = Arc::new(self.shape_of(place.container, &blob).ok()?);
        let start = (place.sector as usize).checked_mul(SECTOR_BYTES as usize)?;
        let rest = blob.get(start..)?;
        let (start, header) = header_of(place, rest).ok()?;
        let bytes = rest.get(start..start + header.region_bytes())?;
        verify_stored(place, &header, bytes).ok()?;
        Some((shape, header, bytes.to_vec()))
    }

    /// Reads the shape from a restored container's header.
    pub(super) fn shape_of(&self, id: ContainerId, blob: &[u8]) -> Result<Shape> {
        let head = blob.get(..HEADER_BYTES).unwrap_or(blob);
        let header = self.check_end(id, head, false)?;
        Ok(self.shape_with(header))
    }

    /// Returns the containers that were restored for readers and not stored again since.
    pub fn to_put_back(&self) -> Vec<ContainerId> {
        let remembered = self.restored.0.lock();
        remembered.damaged.keys().copied().collect()
    }

    /// Returns the count of containers that were restored for readers and not stored again. It can
    /// be read after the reader is dropped.
    pub fn restored_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.restored.1)
    }

    /// Records that a container was stored again as it was written.
    pub fn was_put_back(&self, id: ContainerId) {
        if self.restored.0.lock().damaged.contains_key(&id) {
            self.restored.1.fetch_sub(1, Ordering::Relaxed);
        }
        self.forget_damage(id);
    }

    /// Drops everything remembered about a container, because it has been changed or repaired.
    pub fn forget_damage(&self, id: ContainerId) {
        self.shapes.lock().remove(&id);
        let mut remembered = self.restored.0.lock();
        remembered.kept.retain(|(kept, _)| *kept != id);
        remembered.hopeless.remove(&id);
        remembered.damaged.remove(&id);
    }
}

/// Returns true if regions follow each other from the header to the directory, each with a good
/// checksum.
fn is_whole(id: ContainerId, blob: &[u8]) -> bool {
    let mut start = HEADER_BYTES;
    loop {
        let place = RegionPlace {
            container: id,
            sector: (start / SECTOR_BYTES as usize) as u32,
        };
        let Some(rest) = blob.get(start..) else {
            return false;
        };
        let Ok(header) = RegionHeader::decode(rest) else {
            return false;
        };
        let bytes = rest.get(..header.region_bytes());
        if header.container != id
            || bytes.is_none_or(|bytes| verify_stored(place, &header, bytes).is_err())
        {
            return false;
        }
        if header.index == DIRECTORY_INDEX {
            return true;
        }
        start = next_region(blob, id, start, start + header.region_bytes());
    }
}
