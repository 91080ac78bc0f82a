//! Reads containers and verifies them. The chunk map, the read path, scrub and garbage collection
//! call this.
//!
//! ```text
//! blob --read--> stored bytes --checksum--> --seal--> OpenedRegion --decompress--> raw
//!   (damage: parity, restoring.rs)                      --fingerprints--> Region
//! ```
//!
//! Invariant: see [`super`]. Where stored bytes are damaged, parity restores them if it can.

mod ahead;
mod by;
mod directories;
mod errors;
mod in_order;
mod opened;
mod restoring;
mod walking;

pub use ahead::{Ahead, VisitChunks};
pub use by::{Copies, ReadBy};
pub use in_order::{InOrder, WholeRegions};
#[cfg(feature = "testing")]
pub use opened::flip;
pub use opened::{FetchedRegion, OpenedRegion, ProvenRegion};

use super::container_name;
use super::spare::BufferPool;
use crate::error::{Result, StoreError};
use crate::superblock::MasterKey;
use chunking::{FingerprintKey, SealKey};
use errors::{damaged, is_media_failure, place_error, unreadable};
use format::config::Seal;
use format::container::{
    ContainerClass, ContainerHeader, DIRECTORY_INDEX, Directory, HEADER_BYTES, REGION_HEADER_BYTES,
    RegionHeader, SECTOR_BYTES, find_region, split_region,
};
use media::{Blobs, MediaError, MediaErrorKind, ReadFrom};
use parking_lot::Mutex;
use restoring::RestoredContainers;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use units::{ContainerId, Fingerprint, Part, PoolId};

/// Maximum number of containers whose header and payload key stay in memory.
const HEADERS_MAX: usize = 4096;
/// Maximum number of containers that are remembered as existing.
const SEEN_MAX: usize = 1 << 16;

/// Longest region that may be verified in part, bytes. Longer ones are cached as a whole.
pub const PART_BYTES_MAX: usize = 128 << 10;

/// A decoded region: its chunks in sequence, all verified.
pub struct Region {
    /// Chunk bytes, then the lengths of the chunks.
    pub raw: Vec<u8>,
    /// Fingerprint, start and length of each chunk in `raw`.
    pub chunks: Vec<(Fingerprint, u32, u32)>,
    /// False if only the chunks up to the requested one were verified.
    pub is_whole: bool,
}

impl Region {
    /// Returns the bytes of the chunk with this number, or an empty slice if there is none.
    #[inline]
    pub fn chunk(&self, number: usize) -> &[u8] {
        self.chunks.get(number).map_or(&[], |(_, start, len)| {
            let start = *start as usize;
            // Verified when the region was decoded; callers take parts of it, or compare its name.
            self.raw.get(start..start + *len as usize).unwrap_or(&[])
        })
    }
}

/// Place of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionPlace {
    /// The container.
    pub container: ContainerId,
    /// Sector in which the region begins.
    pub sector: u32,
}

/// Facts from a header that reading a region needs.
pub struct Shape {
    /// The header, verified.
    pub header: ContainerHeader,
    key: Option<SealKey>,
}

/// Everything that is known about a container's chunks, and the damage found on the way.
pub struct Contents {
    /// Kind of its contents.
    pub class: ContainerClass,
    /// Its directory, or the result of a walk over the regions.
    pub directory: Directory,
    /// Descriptions of the damage; empty if there is none.
    pub damage: Vec<String>,
}

/// Reads the containers of one pool.
pub struct ContainerReader {
    blobs: Arc<dyn Blobs>,
    pool: PoolId,
    master: MasterKey,
    /// Seal of all containers of the pool.
    seal: Seal,
    /// Makes the fingerprints of the pool.
    pub fingerprints: FingerprintKey,
    shapes: Mutex<HashMap<ContainerId, Arc<Shape>>>,
    /// Containers that existed when they were last looked up.
    seen: Mutex<HashSet<ContainerId>>,
    spare: BufferPool,
    restored: RestoredContainers,
}

impl ContainerReader {
    /// Creates a reader of a pool's containers. `seal` is the seal of all payloads.
    pub fn new(blobs: Arc<dyn Blobs>, pool: PoolId, master: MasterKey, seal: Seal) -> Self {
        let fingerprints = master.fingerprint_key();
        Self {
            blobs,
            pool,
            master,
            seal,
            fingerprints,
            shapes: Mutex::default(),
            seen: Mutex::default(),
            spare: BufferPool::default(),
            restored: RestoredContainers::default(),
        }
    }

    /// Takes the memory of a region that is no longer needed into the buffer pool.
    pub fn reuse(&self, region: Region) {
        self.spare.give(region.raw);
    }

    /// Returns where the containers are stored.
    pub fn blobs(&self) -> &dyn Blobs {
        &*self.blobs
    }

    /// Returns the facts of the header, or of the footer if the header is damaged. They may be
    /// cached.
    pub fn shape(&self, id: ContainerId) -> Result<Arc<Shape>> {
        if let Some(shape) = self.shapes.lock().get(&id) {
            return Ok(Arc::clone(shape));
        }
        let shape = Arc::new(self.read_shape(id, &mut Vec::new(), Copies::InSystem)?);
        self.keep_shape(id, &shape);
        Ok(shape)
    }

    fn keep_shape(&self, id: ContainerId, shape: &Arc<Shape>) {
        let mut shapes = self.shapes.lock();
        if shapes.len() >= HEADERS_MAX {
            shapes.clear();
        }
        shapes.insert(id, Arc::clone(shape));
    }

    fn read_shape(
        &self,
        id: ContainerId,
        damage: &mut Vec<String>,
        copies: Copies,
    ) -> Result<Shape> {
        match self.read_shape_as_stored(id, damage, copies) {
            Err(why) if why.is_corruption() => {
                let Some(blob) = self.restored(id) else {
                    return Err(why);
                };
                damage.push(why.to_string());
                self.shape_of(id, &blob)
            }
            shape => shape,
        }
    }

    /// Reads header or footer, without parity.
    fn read_shape_as_stored(
        &self,
        id: ContainerId,
        damage: &mut Vec<String>,
        copies: Copies,
    ) -> Result<Shape> {
        let name = container_name(id);
        let mut bytes = vec![0; HEADER_BYTES];
        let head = self
            .read_end(&name, 0, &mut bytes, copies)
            .and_then(|()| self.check_end(id, &bytes, false));
        let header = match head {
            Ok(header) => header,
            Err(why) => {
                if is_media_failure(&why) {
                    return Err(why);
                }
                damage.push(why.to_string());
                let at = self.stored_len(id)?.saturating_sub(HEADER_BYTES as u64);
                self.read_end(&name, at, &mut bytes, copies)?;
                self.check_end(id, &bytes, true)?
            }
        };
        Ok(self.shape_with(header))
    }

    fn shape_with(&self, header: ContainerHeader) -> Shape {
        let key = self.master.container_key(self.seal, &header.salt);
        Shape { header, key }
    }

    /// Returns false if there is no such container. An existing one is remembered, so it may have
    /// been deleted since.
    pub fn is_there(&self, id: ContainerId) -> bool {
        if self.seen.lock().contains(&id) {
            return true;
        }
        let is_there = self.stored_len(id).is_ok();
        let mut seen = self.seen.lock();
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        // Do not remember a missing container: it may be stored later.
        is_there && {
            seen.insert(id);
            true
        }
    }

    /// Returns the length of the blob. A missing or unreadable blob is corruption.
    pub fn stored_len(&self, id: ContainerId) -> Result<u64> {
        let name = container_name(id);
        self.blobs.len(&name).map_err(|e| unreadable(&name, e))
    }

    fn read_end(&self, name: &str, at: u64, bytes: &mut [u8], copies: Copies) -> Result<()> {
        let read = match copies {
            Copies::InSystem => self.blobs.read_range(name, at, bytes),
            Copies::Nowhere => self.blobs.read_range_past_cache(name, at, bytes),
        };
        read.map_err(|e| unreadable(name, e))
    }

    fn check_end(&self, id: ContainerId, bytes: &[u8], footer: bool) -> Result<ContainerHeader> {
        let at = container_name(id);
        let header = ContainerHeader::decode(bytes, footer).map_err(|e| damaged(&at, e))?;
        if header.pool != self.pool || header.id != id {
            let found = format!(
                "the file is container {} of pool {}",
                header.id, header.pool
            );
            return Err(StoreError::corruption("container", at, found));
        }
        // Anybody could forge an unsealed container.
        if header.seal != self.seal {
            let found = "it is encrypted in another way than the pool";
            return Err(StoreError::corruption("container", at, found));
        }
        Ok(header)
    }

    /// Checks the footer. Reads need it only if the header is damaged.
    pub fn check_footer(&self, id: ContainerId, len: u64, copies: Copies) -> Result<()> {
        let name = container_name(id);
        let mut bytes = vec![0; HEADER_BYTES];
        let at = len.saturating_sub(HEADER_BYTES as u64);
        self.read_end(&name, at, &mut bytes, copies)?;
        self.check_end(id, &bytes, true).map(drop)
    }

    /// Reads, verifies and decodes the region whose header is at `place`. Parity restores it if it
    /// is damaged and parity suffices.
    pub fn region(&self, place: RegionPlace, sectors_hint: u32) -> Result<Region> {
        self.region_restored_by(place, sectors_hint, &mut ReadBy::default(), None)
    }

    /// Like [`Self::region_by`], for a caller that knows that the region exists. Parity restores it
    /// if it is damaged and parity suffices.
    pub fn region_restored_by(
        &self,
        place: RegionPlace,
        sectors_hint: u32,
        by: &mut ReadBy,
        only: Option<&Fingerprint>,
    ) -> Result<Region> {
        match self.region_by(place, sectors_hint, by, only) {
            Err(e) if e.is_corruption() => {
                by.is_from_device = false;
                self.restored_region(place, only).ok_or(e)
            }
            region => region,
        }
    }

    /// Like [`Self::region`], without parity: reads what the device or the system's cache has.
    pub fn region_as_stored(&self, place: RegionPlace, sectors_hint: u32) -> Result<Region> {
        self.region_by(place, sectors_hint, &mut ReadBy::default(), None)
    }

    /// Like [`Self::region_as_stored`]; `by` says whether the system may cache the stored bytes. If
    /// `only` is set, chunks after it in a short region are not verified and not returned.
    pub fn region_by(
        &self,
        place: RegionPlace,
        sectors_hint: u32,
        by: &mut ReadBy,
        only: Option<&Fingerprint>,
    ) -> Result<Region> {
        let shape = self.shape(place.container)?;
        if shape.key.is_some() {
            // The seal covers every byte and the header, and the fingerprint is compared too: the
            // checksum would find nothing that they do not. After a failure it tells damage from
            // bytes that somebody else sealed, and a second read may be sound.
            let (header, stored) = self.read_stored(place, sectors_hint, by)?;
            match self.decoded(&shape, &header, place, stored, only) {
                Err(e) if e.is_corruption() => {}
                region => return region,
            }
        }
        let (header, stored) = self.stored_by(place, sectors_hint, by)?;
        self.decoded(&shape, &header, place, stored, only)
    }

    /// Opens, decompresses and fingerprints a region.
    fn decoded(
        &self,
        shape: &Shape,
        header: &RegionHeader,
        place: RegionPlace,
        stored: Vec<u8>,
        only: Option<&Fingerprint>,
    ) -> Result<Region> {
        let raw = self.raw(shape, header, place, stored)?;
        let lengths = lengths_of(header, place, &raw)?;
        let only = only.filter(|_| raw.len() <= PART_BYTES_MAX);
        let count = lengths.len();
        let chunks = self.named(&raw, lengths, only);
        Ok(Region {
            raw,
            is_whole: chunks.len() == count,
            chunks,
        })
    }

    /// Returns fingerprint, start and length of the chunks in `raw`, up to `only`.
    fn named(
        &self,
        raw: &[u8],
        lengths: impl IntoIterator<Item = u32>,
        only: Option<&Fingerprint>,
    ) -> Vec<(Fingerprint, u32, u32)> {
        let mut end = 0;
        let spans = lengths.into_iter().map(|len| {
            end += len;
            (end - len, len)
        });
        let bytes_of = |&(start, len): &(u32, u32)| {
            let bytes = raw.get(start as usize..(start + len) as usize);
            bytes.unwrap_or_default()
        };
        let Some(only) = only else {
            let spans: Vec<_> = spans.collect();
            let names = self.fingerprints.fingerprints(spans.iter().map(bytes_of));
            let named = names.into_iter().zip(spans);
            return named
                .map(|(name, (start, len))| (name, start, len))
                .collect();
        };
        let mut named = Vec::new();
        for (start, len) in spans {
            let name = self.fingerprints.fingerprint(bytes_of(&(start, len)));
            named.push((name, start, len));
            if name == *only {
                break;
            }
        }
        named
    }

    /// Reads a region as stored, header included, and checks its checksum. Needs no key.
    fn stored_by(
        &self,
        place: RegionPlace,
        sectors_hint: u32,
        by: &mut ReadBy,
    ) -> Result<(RegionHeader, Vec<u8>)> {
        let (header, bytes) = self.read_stored(place, sectors_hint, by)?;
        verify_stored(place, &header, &bytes)?;
        Ok((header, bytes))
    }

    /// Makes the device begin with the read of a region that follows soon. Waits for nothing.
    /// Returns false if nothing was begun.
    pub fn announce(&self, place: RegionPlace, sectors_hint: u32) -> bool {
        // Without its header in memory the container's header is read first.
        let is_known = self.shapes.lock().contains_key(&place.container);
        let at = u64::from(place.sector) * u64::from(SECTOR_BYTES);
        let name = container_name(place.container);
        is_known
            && self
                .blobs
                .announce_read(&name, at, first_read_bytes(sectors_hint) as u64)
    }

    /// Reads a region as stored, header included. Its checksum is not checked yet.
    fn read_stored(
        &self,
        place: RegionPlace,
        sectors_hint: u32,
        by: &mut ReadBy,
    ) -> Result<(RegionHeader, Vec<u8>)> {
        let mut bytes = self.read_as_far(place, first_read_bytes(sectors_hint), by)?;
        let (start, header) = header_of(place, &bytes)?;
        let need = start + header.region_bytes();
        if need > bytes.len() {
            let have = bytes.len();
            bytes.resize(need, 0);
            self.read_more(place, bytes.part_mut(have..)?, have, by)
                .map_err(|e| unreadable(&container_name(place.container), e))?;
        }
        bytes.truncate(need);
        bytes.drain(..start);
        Ok((header, bytes))
    }

    /// Reads `len` bytes from the sector of a place on, or only its beginning: a region that ends
    /// before an unreadable sector, or before the end of a file that was cut off, may be whole.
    fn read_as_far(&self, place: RegionPlace, len: usize, by: &mut ReadBy) -> Result<Vec<u8>> {
        let failed = match self.read_at(place, len, by) {
            Ok(bytes) => return Ok(bytes),
            Err(e) => e,
        };
        let is_missing = failed.kind == MediaErrorKind::NotFound;
        let why = unreadable(&container_name(place.container), failed);
        if is_missing || !why.is_corruption() {
            return Err(why);
        }
        let sector = SECTOR_BYTES as usize;
        let begin = [sector + REGION_HEADER_BYTES, sector, REGION_HEADER_BYTES];
        let begun = begin
            .iter()
            .find_map(|len| self.read_at(place, *len, by).ok());
        begun.ok_or(why)
    }

    /// Reads `len` bytes from the sector of a place on.
    fn read_at(
        &self,
        place: RegionPlace,
        len: usize,
        by: &mut ReadBy,
    ) -> std::result::Result<Vec<u8>, MediaError> {
        let mut bytes = self.spare.take(len);
        bytes.resize(len, 0);
        by.is_from_device = by.asks;
        self.read_more(place, &mut bytes, 0, by)?;
        Ok(bytes)
    }

    /// Fills `into` from `behind` bytes behind the beginning of a place's sector.
    fn read_more(
        &self,
        place: RegionPlace,
        into: &mut [u8],
        behind: usize,
        by: &mut ReadBy,
    ) -> std::result::Result<(), MediaError> {
        let name = container_name(place.container);
        let at = u64::from(place.sector) * u64::from(SECTOR_BYTES) + behind as u64;
        match (by.asks, by.copies) {
            (false, Copies::InSystem) => self.blobs.read_range(&name, at, into),
            (false, Copies::Nowhere) => self.blobs.read_range_past_cache(&name, at, into),
            (true, copies) => {
                let past_cache = copies == Copies::Nowhere;
                let from = self.blobs.read_range_reported(&name, at, into, past_cache);
                by.is_from_device &= matches!(from, Ok(ReadFrom::Device));
                from.map(drop)
            }
        }
    }

    /// Opens and decompresses a region.
    fn raw(
        &self,
        shape: &Shape,
        header: &RegionHeader,
        place: RegionPlace,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let region = OpenedRegion::open(shape, *header, place, stored)?;
        self.unpack(region)
    }
}

/// Returns how many bytes are read first of a region with about so many sectors: at least its
/// header, wherever in the sector it begins.
fn first_read_bytes(sectors_hint: u32) -> usize {
    let hint = sectors_hint as usize * SECTOR_BYTES as usize;
    hint.max(SECTOR_BYTES as usize + REGION_HEADER_BYTES)
}

/// Returns the lengths of the chunks of a decompressed region.
fn lengths_of(header: &RegionHeader, place: RegionPlace, raw: &[u8]) -> Result<Vec<u32>> {
    if header.index == DIRECTORY_INDEX {
        return Err(place_error(place, "found a directory instead of a region"));
    }
    if raw.len() != header.raw_bytes as usize {
        return Err(place_error(place, "its length differs from its header"));
    }
    let split = split_region(raw, header.chunk_count).map_err(|e| place_error(place, e));
    split.map(|(_, lengths)| lengths)
}

fn verify_stored(place: RegionPlace, header: &RegionHeader, bytes: &[u8]) -> Result<()> {
    header
        .verify_payload(bytes.part(REGION_HEADER_BYTES..)?)
        .map_err(|e| place_error(place, e))
}

/// Returns where in the bytes, which begin with its sector, a region begins, and its header.
fn header_of(place: RegionPlace, bytes: &[u8]) -> Result<(usize, RegionHeader)> {
    if let Some(found) = find_region(bytes, place.container) {
        return Ok(found);
    }
    let header = RegionHeader::decode(bytes).map_err(|e| place_error(place, e))?;
    let found = format!("it belongs to container {}", header.container);
    Err(place_error(place, found))
}
