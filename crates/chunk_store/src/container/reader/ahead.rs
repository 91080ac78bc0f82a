//! Reads several regions with one read of the device. Scrub calls this: it verifies a container
//! from beginning to end.
//!
//! Invariant: the bytes pass the same checks as a region that is read alone. A region that was not
//! read ahead, or whose length differs from the directory, is read alone. Reads go past the
//! system's page cache, because the cache does not prove what the device has. Decoding what was
//! read ahead accesses no device, so another thread may do it.

use super::{
    ContainerReader, Copies, ReadBy, Region, RegionPlace, Shape, container_name, header_of,
    place_error,
};
use crate::error::Result;
use format::container::{REGION_HEADER_BYTES, SECTOR_BYTES, sectors_max};
use std::sync::Arc;
use units::ContainerId;

/// Length up to which memory is as cheap from the allocator as from the buffer pool, bytes.
const SMALL_BYTES: usize = 64 << 10;

/// Bytes of one container, starting at a region. Not verified.
pub struct Ahead {
    pub(super) from: RegionPlace,
    pub(super) shape: Arc<Shape>,
    pub(super) bytes: Vec<u8>,
    /// The checksums of regions are compared although a seal covers the same bytes.
    pub(super) checks_all: bool,
}

impl Ahead {
    /// Returns the container.
    pub fn container(&self) -> ContainerId {
        self.from.container
    }

    /// Returns the bytes from a region's sector on, or `None` if they were not read.
    fn from(&self, place: RegionPlace) -> Option<&[u8]> {
        let same = place.container == self.from.container;
        let sectors = place.sector.checked_sub(self.from.sector);
        let start = sectors.filter(|_| same)? as usize * SECTOR_BYTES as usize;
        self.bytes.get(start..).filter(|rest| !rest.is_empty())
    }
}

impl ContainerReader {
    /// Like [`Self::ahead`], as `by` says, for readers: what a region's seal covers is not compared
    /// with its checksum too.
    pub fn ahead_by(&self, from: RegionPlace, sectors: u32, by: &mut ReadBy) -> Option<Ahead> {
        let shape = self.shape(from.container).ok()?;
        let bytes = self
            .read_at(from, sectors as usize * SECTOR_BYTES as usize, by)
            .ok()?;
        Some(Ahead {
            from,
            shape,
            bytes,
            checks_all: false,
        })
    }

    /// Reads `len` bytes starting at a region. Returns `None` if that fails; reading each region
    /// alone then gives its error.
    pub fn ahead(&self, from: RegionPlace, len: usize) -> Option<Ahead> {
        let at = u64::from(from.sector) * u64::from(SECTOR_BYTES);
        let name = container_name(from.container);
        let shape = self.shape(from.container).ok()?;
        let mut bytes = self.spare.take(len);
        bytes.resize(len, 0);
        let read = self.blobs.read_range_past_cache(&name, at, &mut bytes);
        read.ok()?;
        Some(Ahead {
            from,
            shape,
            bytes,
            checks_all: true,
        })
    }

    /// Takes the memory into the buffer pool.
    pub fn reuse_ahead(&self, ahead: Ahead) {
        self.spare.give(ahead.bytes);
    }

    /// Returns a region, verified and decoded, from the read-ahead bytes. `None`: they do not have
    /// it with that length, so it is read alone.
    pub fn region_ahead(
        &self,
        ahead: &Ahead,
        place: RegionPlace,
        stored_bytes: u32,
    ) -> Option<Result<Region>> {
        let rest = ahead.from(place)?;
        let (start, header) = match header_of(place, rest) {
            // Without the end of the header nothing is known of it.
            Err(_) if rest.len() < SECTOR_BYTES as usize + REGION_HEADER_BYTES => return None,
            Err(e) => return Some(Err(e)),
            Ok((_, header)) if header.stored_bytes != stored_bytes => return None,
            Ok(found) => found,
        };
        let len = header.region_bytes();
        let part = rest.get(start..start + len)?;
        let payload = part.get(REGION_HEADER_BYTES..)?;
        if (ahead.checks_all || ahead.shape.key.is_none())
            && let Err(e) = header.verify_payload(payload)
        {
            return Some(Err(place_error(place, e)));
        }
        // A cache counts the capacity, and the pool may give twice the length.
        let mut stored = match len <= SMALL_BYTES {
            true => Vec::with_capacity(len),
            false => self.spare.take(len),
        };
        stored.clear();
        stored.extend_from_slice(part);
        Some(self.decoded(&ahead.shape, &header, place, stored, None))
    }

    /// Like [`Self::region_ahead`], for a caller that does not know the length.
    pub fn region_in(&self, ahead: &Ahead, place: RegionPlace) -> Option<Result<Region>> {
        let (_, header) = header_of(place, ahead.from(place)?).ok()?;
        self.region_ahead(ahead, place, header.stored_bytes)
    }

    /// Returns a region, verified and decoded, from the device.
    pub fn region_alone(&self, place: RegionPlace, stored_bytes: u32) -> Result<Region> {
        let sectors = sectors_max(stored_bytes);
        self.region_by(place, sectors, &mut ReadBy::leaving(Copies::Nowhere), None)
    }
}
