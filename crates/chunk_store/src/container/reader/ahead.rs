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
use format::container::{REGION_HEADER_BYTES, SECTOR_BYTES, region_sectors};
use std::sync::Arc;
use units::ContainerId;

/// Bytes of one container, starting at a region. Not verified.
pub struct Ahead {
    pub(super) from: RegionPlace,
    pub(super) shape: Arc<Shape>,
    pub(super) bytes: Vec<u8>,
}

impl Ahead {
    /// Returns the container.
    pub fn container(&self) -> ContainerId {
        self.from.container
    }

    /// Returns `len` bytes at a region, or `None` if they were not read.
    fn part(&self, place: RegionPlace, len: usize) -> Option<&[u8]> {
        let same = place.container == self.from.container;
        let sectors = place.sector.checked_sub(self.from.sector);
        let start = sectors.filter(|_| same)? as usize * SECTOR_BYTES as usize;
        self.bytes.get(start..start.checked_add(len)?)
    }
}

impl ContainerReader {
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
        Some(Ahead { from, shape, bytes })
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
        let len = REGION_HEADER_BYTES + stored_bytes as usize;
        let part = ahead.part(place, len)?;
        let header = match header_of(place, part) {
            Err(e) => return Some(Err(e)),
            Ok(header) if header.stored_bytes != stored_bytes => return None,
            Ok(header) => header,
        };
        let payload = part.get(REGION_HEADER_BYTES..)?;
        if let Err(e) = header.verify_payload(payload) {
            return Some(Err(place_error(place, e)));
        }
        let mut stored = self.spare.take(len);
        stored.clear();
        stored.extend_from_slice(part);
        Some(self.decoded(&ahead.shape, &header, place, stored, None))
    }

    /// Returns a region, verified and decoded, from the device.
    pub fn region_alone(&self, place: RegionPlace, stored_bytes: u32) -> Result<Region> {
        let sectors = region_sectors(stored_bytes);
        self.region_by(place, sectors, &mut ReadBy::leaving(Copies::Nowhere), None)
    }
}
