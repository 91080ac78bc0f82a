//! Several regions by one read of the device, for who verifies a container from its begin to its end.
//!
//! Invariant: the bytes are checked as those of a region that is read alone; what was not read, or is not
//! as long as the directory says, is read alone. Past the system's page cache, as what the system
//! remembers is not what the device has. Called by the scrub.

use super::{
    ContainerReader, Copies, ReadBy, Region, RegionPlace, container_name, header_of, place_error,
};
use crate::error::Result;
use format::container::{REGION_HEADER_BYTES, SECTOR_BYTES, region_sectors};

/// Reads past the cache are of whole blocks of the device: one that two of them need is read by the first. Read twice, it
/// costs a disk a whole turn.
const BLOCK_BYTES: u64 = 4096;

/// The part of the last block that lies after what was read.
pub struct Tail {
    /// Of the container.
    offset: u64,
    bytes: Vec<u8>,
}

/// Bytes of one container from a region on, not verified.
pub struct Ahead {
    from: RegionPlace,
    bytes: Vec<u8>,
}

impl Ahead {
    /// So many bytes from a region on; `None` when they were not read.
    fn part(&self, place: RegionPlace, len: usize) -> Option<&[u8]> {
        let same = place.container == self.from.container;
        let sectors = place.sector.checked_sub(self.from.sector);
        let start = sectors.filter(|_| same)? as usize * SECTOR_BYTES as usize;
        self.bytes.get(start..start.checked_add(len)?)
    }
}

impl ContainerReader {
    /// Reads so many bytes from a region on, those left out that are in the `tail` of the read before. `None` where
    /// that fails: each region says what is wrong with it.
    pub fn ahead(&self, from: RegionPlace, len: usize, tail: &mut Option<Tail>) -> Option<Ahead> {
        let at = u64::from(from.sector) * u64::from(SECTOR_BYTES);
        let name = container_name(from.container);
        let whole = at.saturating_add(len as u64).next_multiple_of(BLOCK_BYTES) - at;
        let whole = usize::try_from(whole).ok()?.max(len);
        let mut bytes = self.spare.take(whole);
        bytes.clear();
        if let Some(tail) = tail.take().filter(|tail| tail.offset == at) {
            bytes.extend_from_slice(tail.bytes.get(..len.min(tail.bytes.len()))?);
        }
        let known = bytes.len();
        bytes.resize(whole, 0);
        let unread = bytes.get_mut(known..)?;
        let read = self
            .blobs
            .read_range_past_cache(&name, at.saturating_add(known as u64), unread);
        read.ok()?;
        *tail = Some(Tail {
            offset: at.saturating_add(len as u64),
            bytes: bytes.split_off(len),
        });
        Some(Ahead { from, bytes })
    }

    /// Takes the memory back.
    pub fn reuse_ahead(&self, ahead: Ahead) {
        self.spare.give(ahead.bytes);
    }

    /// A region, verified and decoded: from what was read ahead, or else from the device.
    pub fn region_of(
        &self,
        ahead: Option<&Ahead>,
        place: RegionPlace,
        stored_bytes: u32,
    ) -> Result<Region> {
        let len = REGION_HEADER_BYTES + stored_bytes as usize;
        if let Some(part) = ahead.and_then(|ahead| ahead.part(place, len)) {
            let header = header_of(place, part)?;
            if header.stored_bytes == stored_bytes {
                let payload = part.get(REGION_HEADER_BYTES..).unwrap_or_default();
                let verified = header.verify_payload(payload);
                verified.map_err(|e| place_error(place, e))?;
                let mut stored = self.spare.take(len);
                stored.clear();
                stored.extend_from_slice(part);
                let shape = self.shape(place.container)?;
                return self.decoded(&shape, &header, place, stored, None);
            }
        }
        let sectors = region_sectors(stored_bytes);
        self.region_by(place, sectors, &mut ReadBy::leaving(Copies::Nowhere), None)
    }
}
