//! Reads several regions with one read of the device. Scrub calls this: it verifies a container
//! from beginning to end.
//!
//! Invariant: the bytes pass the same checks as a region that is read alone. A region that was not
//! read ahead, or whose length differs from the directory, is read alone. Reads go past the
//! system's page cache, because the cache does not prove what the device has. Decoding what was
//! read ahead accesses no device, so another thread may do it.

use super::opened::opened_in_place;
use super::{
    ContainerReader, Copies, ReadBy, Region, RegionPlace, Shape, container_name, header_of,
    lengths_of, place_error,
};
use crate::error::Result;
use chunking::TOGETHER;
use format::container::{
    DIRECTORY_INDEX, REGION_HEADER_BYTES, RegionHeader, SECTOR_BYTES, sectors_max,
};
use std::ops::Range;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Length up to which memory is as cheap from the allocator as from the buffer pool, bytes.
const SMALL_BYTES: usize = 64 << 10;

/// Bytes of chunks that are decoded before they are hashed: they stay in the processor's cache.
const BATCH_BYTES: u32 = 128 << 10;

/// Receives the number of a region, and its chunks in order, each with its fingerprint.
pub type VisitChunks<'a> = dyn FnMut(usize, &mut dyn Iterator<Item = (&Fingerprint, &[u8])>) + 'a;

/// A region that was decoded where it was read.
struct InPlace {
    number: usize,
    /// Its opened payload in [`Ahead::bytes`].
    payload: Range<usize>,
    /// Its contents, if it was compressed.
    unpacked: Option<Vec<u8>>,
    /// Lengths of its chunks.
    lengths: Vec<u32>,
}

impl InPlace {
    fn chunks<'a>(&'a self, ahead: &'a Ahead) -> Vec<&'a [u8]> {
        let payload = || ahead.bytes.get(self.payload.clone()).unwrap_or_default();
        let mut rest = self.unpacked.as_deref().unwrap_or_else(payload);
        let chunk = |len: &u32| {
            // The lengths were checked.
            let (chunk, behind) = rest.split_at_checked(*len as usize).unwrap_or_default();
            rest = behind;
            chunk
        };
        self.lengths.iter().map(chunk).collect()
    }
}

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

    /// Flips a bit in the middle of a region.
    #[cfg(test)]
    pub(in crate::container) fn damage(&mut self, place: RegionPlace, stored_bytes: u32) {
        let found = self
            .find(place, stored_bytes)
            .expect("read")
            .expect("sound");
        let payload = found.1.start + REGION_HEADER_BYTES..found.1.end;
        self.bytes[(payload.start + payload.end) / 2] ^= 1;
    }

    /// Returns the bytes from a region's sector on, and where they begin; `None` if they were not
    /// read.
    fn from(&self, place: RegionPlace) -> Option<(usize, &[u8])> {
        let same = place.container == self.from.container;
        let sectors = place.sector.checked_sub(self.from.sector);
        let start = sectors.filter(|_| same)? as usize * SECTOR_BYTES as usize;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        Some((start, rest))
    }

    /// Returns the regions from `place` on that were read and lie side by side, as their headers
    /// say, until they have `raw_bytes` of chunks: each with its place and stored length. Nothing
    /// is verified. The directory is none of them.
    pub fn side_by_side(&self, place: RegionPlace, raw_bytes: u64) -> Vec<(RegionPlace, u32)> {
        let mut run = Vec::new();
        let Some((at, rest)) = self.from(place) else {
            return run;
        };
        let Ok((start, header)) = header_of(place, rest) else {
            return run;
        };
        let (mut end, mut last, mut raw) = (at + start, header, 0);
        loop {
            let sectors = u32::try_from(end / SECTOR_BYTES as usize).unwrap_or(u32::MAX);
            let place = RegionPlace {
                sector: self.from.sector.saturating_add(sectors),
                ..self.from
            };
            end += last.region_bytes();
            if end > self.bytes.len() {
                return run;
            }
            run.push((place, last.stored_bytes));
            raw += u64::from(last.raw_bytes);
            let next = self.bytes.get(end..).map(RegionHeader::decode);
            match next {
                Some(Ok(next))
                    if raw < raw_bytes
                        && next.container == self.from.container
                        && last.index.checked_add(1) == Some(next.index)
                        && next.index != DIRECTORY_INDEX =>
                {
                    last = next;
                }
                _ => return run,
            }
        }
    }

    /// Returns the header of a region and where its bytes are, header included. `None`: they were
    /// not read, or have another length than `stored_bytes`.
    fn find(
        &self,
        place: RegionPlace,
        stored_bytes: u32,
    ) -> Option<Result<(RegionHeader, Range<usize>)>> {
        let (at, rest) = self.from(place)?;
        let (start, header) = match header_of(place, rest) {
            // Without the end of the header nothing is known of it.
            Err(_) if rest.len() < SECTOR_BYTES as usize + REGION_HEADER_BYTES => return None,
            Err(e) => return Some(Err(e)),
            Ok((_, header)) if header.stored_bytes != stored_bytes => return None,
            Ok(found) => found,
        };
        let end = start + header.region_bytes();
        let payload = rest.get(start..end)?.get(REGION_HEADER_BYTES..)?;
        if (self.checks_all || self.shape.key.is_none())
            && let Err(e) = header.verify_payload(payload)
        {
            return Some(Err(place_error(place, e)));
        }
        Some(Ok((header, at + start..at + end)))
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
        let (header, range) = match ahead.find(place, stored_bytes)? {
            Ok(found) => found,
            Err(e) => return Some(Err(e)),
        };
        let part = ahead.bytes.get(range)?;
        // A cache counts the capacity, and the pool may give twice the length.
        let mut stored = match part.len() <= SMALL_BYTES {
            true => Vec::with_capacity(part.len()),
            false => self.spare.take(part.len()),
        };
        stored.clear();
        stored.extend_from_slice(part);
        Some(self.decoded(&ahead.shape, &header, place, stored, None))
    }

    /// Decodes regions in the memory that was read, and passes the verified chunks of each to
    /// `visit`, with its number in `regions`. Regions that the bytes do not have, and damaged ones,
    /// are left out: they are read alone. Their bytes in `ahead` are garbage afterwards.
    pub fn visit_ahead(
        &self,
        ahead: &mut Ahead,
        regions: &[(RegionPlace, u32)],
        visit: &mut VisitChunks<'_>,
    ) {
        // All are found before the first is opened: its last sector may have what looks like a
        // header then.
        let find = |(place, stored_bytes): &(RegionPlace, u32)| {
            let found = ahead.find(*place, *stored_bytes)?.ok()?;
            Some((*place, found))
        };
        let found: Vec<_> = regions.iter().map(find).collect();
        let mut batch = Vec::new();
        for (number, found) in found.into_iter().enumerate() {
            if let Some((place, found)) = found {
                batch.extend(self.decoded_in_place(ahead, number, place, found));
            }
            // A small region has fewer chunks than are hashed side by side.
            let lengths = batch.iter().flat_map(|region| &region.lengths);
            let (chunks, bytes) = lengths.fold((0, 0), |(n, bytes), len| {
                (n + 1, u32::saturating_add(bytes, *len))
            });
            let is_full = chunks >= TOGETHER || bytes >= BATCH_BYTES;
            if is_full || number + 1 == regions.len() {
                self.visit_batch(ahead, &mut batch, visit);
            }
        }
    }

    /// Opens and decompresses a region. Its fingerprints are not verified yet.
    fn decoded_in_place(
        &self,
        ahead: &mut Ahead,
        number: usize,
        place: RegionPlace,
        (header, range): (RegionHeader, Range<usize>),
    ) -> Option<InPlace> {
        let shape = Arc::clone(&ahead.shape);
        let stored = ahead.bytes.get_mut(range.clone())?;
        let payload = opened_in_place(&shape, &header, place, stored).ok()?;
        let unpacked = self.unpack_bytes(&header, place, payload).ok()?;
        let raw = unpacked.as_deref().unwrap_or(payload);
        let lengths = lengths_of(&header, place, raw).ok()?;
        let start = range.start + REGION_HEADER_BYTES;
        Some(InPlace {
            number,
            payload: start..start + payload.len(),
            unpacked,
            lengths,
        })
    }

    fn visit_batch(&self, ahead: &Ahead, batch: &mut Vec<InPlace>, visit: &mut VisitChunks<'_>) {
        let chunks: Vec<Vec<&[u8]>> = batch.iter().map(|region| region.chunks(ahead)).collect();
        let names = self
            .fingerprints
            .fingerprints(chunks.iter().flatten().copied());
        let mut names = names.as_slice();
        for (region, chunks) in batch.iter().zip(&chunks) {
            let (of_region, of_others) = names.split_at(chunks.len().min(names.len()));
            names = of_others;
            visit(
                region.number,
                &mut of_region.iter().zip(chunks.iter().copied()),
            );
        }
        drop(chunks);
        let unpacked = batch.drain(..).filter_map(|region| region.unpacked);
        unpacked.for_each(|raw| self.spare.give(raw));
    }

    /// Like [`Self::region_ahead`], for a caller that does not know the length.
    pub fn region_in(&self, ahead: &Ahead, place: RegionPlace) -> Option<Result<Region>> {
        let (_, header) = header_of(place, ahead.from(place)?.1).ok()?;
        self.region_ahead(ahead, place, header.stored_bytes)
    }

    /// Returns a region, verified and decoded, from the device.
    pub fn region_alone(&self, place: RegionPlace, stored_bytes: u32) -> Result<Region> {
        let sectors = sectors_max(stored_bytes);
        self.region_by(place, sectors, &mut ReadBy::leaving(Copies::Nowhere), None)
    }
}
