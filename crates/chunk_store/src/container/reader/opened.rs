//! A region between the device and its seal, and between that and its chunks: what who copies it may need no
//! more of.
//!
//! Invariant: of an opened one the stored bytes are what somebody who has the pool's keys stored at
//! this place (checksum, and seal where the pool is sealed); what they decompress to nobody has
//! looked at. Of a proven one every chunk had its fingerprint, and the payload has not changed
//! since: whoever seals it again asks. Called by the container reader and the collector.

use super::{ContainerReader, ReadBy, RegionPlace, Shape, place_error, verify_stored};
use crate::container::nonce::nonce_of;
use crate::error::Result;
use chunking::{Decompressor, Packed};
use format::config::Codec;
use format::container::{DIRECTORY_INDEX, REGION_HEADER_BYTES, RegionHeader, split_region};
use std::cell::RefCell;
use std::sync::Arc;
use units::Fingerprint;

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

/// A region as it was read: nothing of it is checked but whose it says that it is.
pub struct FetchedRegion {
    shape: Arc<Shape>,
    place: RegionPlace,
    header: RegionHeader,
    bytes: Vec<u8>,
}

impl FetchedRegion {
    /// Bytes that were read.
    pub fn bytes_read(&self) -> usize {
        self.bytes.len()
    }

    /// Checks it and opens its seal.
    pub fn open(self) -> Result<OpenedRegion> {
        verify_stored(self.place, &self.header, &self.bytes)?;
        OpenedRegion::open(&self.shape, self.header, self.place, self.bytes)
    }
}

/// See the module's head.
pub struct OpenedRegion {
    place: RegionPlace,
    header: RegionHeader,
    bytes: Vec<u8>,
    payload_at: usize,
}

impl OpenedRegion {
    pub(super) fn open(
        shape: &Shape,
        header: RegionHeader,
        place: RegionPlace,
        mut bytes: Vec<u8>,
    ) -> Result<Self> {
        let payload_at = match &shape.key {
            None => REGION_HEADER_BYTES,
            Some(key) => {
                let (nonce, bound) = (nonce_of(header.index), header.associated_data());
                if !key.open_after(nonce, &bound, &mut bytes, REGION_HEADER_BYTES) {
                    return Err(place_error(place, "its seal does not open"));
                }
                0
            }
        };
        #[cfg(feature = "testing")]
        flip::strike(flip::When::Opened, &mut bytes, payload_at);
        Ok(Self {
            place,
            header,
            bytes,
            payload_at,
        })
    }

    /// How the payload is compressed.
    pub fn codec(&self) -> Codec {
        self.header.codec
    }

    /// Its length after decompression: chunks and their lengths.
    pub fn raw_bytes(&self) -> u32 {
        self.header.raw_bytes
    }

    /// Still compressed.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload_at..).unwrap_or_default()
    }

    fn checksum_of(&self, payload: &[u8]) -> u64 {
        RegionHeader::checksum_payload(self.header.container, self.header.index, payload)
    }

    /// True when these chunks, as a directory tells them, fill it.
    pub fn is_of(&self, chunks: &[(Fingerprint, u32)]) -> bool {
        let bytes: u64 = chunks.iter().map(|(_, len)| u64::from(*len) + 4).sum();
        self.header.chunk_count as usize == chunks.len()
            && u64::from(self.header.raw_bytes) == bytes
    }
}

/// An opened region whose chunks were compared with their fingerprints.
pub struct ProvenRegion {
    region: OpenedRegion,
    /// Of the payload, from before the comparison.
    checksum: u64,
}

impl ProvenRegion {
    /// What was opened.
    pub fn opened(&self) -> &OpenedRegion {
        &self.region
    }

    /// The same, for who packs its chunks anew.
    pub fn into_opened(self) -> OpenedRegion {
        self.region
    }

    /// True when `payload`, a copy that is to be sealed, is what was compared: memory that failed
    /// in between would be sealed as good data.
    pub fn is_payload(&self, payload: &[u8]) -> bool {
        self.region.checksum_of(payload) == self.checksum
    }
}

impl ContainerReader {
    /// Compares all chunks of a region with their fingerprints. `None`: it is not what it is
    /// called.
    pub fn proven(
        &self,
        region: OpenedRegion,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<Option<ProvenRegion>> {
        let checksum = region.checksum_of(region.payload());
        let unpacked = self.unpack_payload(&region)?;
        let raw = unpacked.as_deref().unwrap_or(region.payload());
        let is_proven = self.are_called(&region, raw, chunks)?;
        if let Some(raw) = unpacked {
            self.spare.give(raw);
        }
        Ok(is_proven.then_some(ProvenRegion { region, checksum }))
    }

    fn are_called(
        &self,
        region: &OpenedRegion,
        raw: &[u8],
        chunks: &[(Fingerprint, u32)],
    ) -> Result<bool> {
        check_lengths(region.place, region.header.chunk_count, raw, chunks)?;
        let mut rest = raw;
        let mut named = Vec::with_capacity(chunks.len());
        for (name, len) in chunks {
            let (chunk, behind) = rest.split_at_checked(*len as usize).unwrap_or_default();
            named.push((*name, chunk));
            rest = behind;
        }
        Ok(self.is_called(&named))
    }

    /// Reads a region.
    pub fn fetched(&self, place: RegionPlace, sectors_hint: u32) -> Result<FetchedRegion> {
        let shape = self.shape(place.container)?;
        let (header, bytes) = self.read_stored(place, sectors_hint, &mut ReadBy::default())?;
        if header.index == DIRECTORY_INDEX {
            let why = "a directory stands where a region should";
            return Err(place_error(place, why));
        }
        Ok(FetchedRegion {
            shape,
            place,
            header,
            bytes,
        })
    }

    /// A region as parity restores it, opened; `None` when it cannot.
    pub fn opened_restored(&self, place: RegionPlace) -> Option<OpenedRegion> {
        let (shape, header, bytes) = self.restored_bytes(place)?;
        if header.index == DIRECTORY_INDEX {
            return None;
        }
        OpenedRegion::open(&shape, header, place, bytes).ok()
    }

    /// What it holds: chunk bytes, then their lengths.
    pub(super) fn unpack(&self, region: OpenedRegion) -> Result<Vec<u8>> {
        let (place, raw_len) = (region.place, region.header.raw_bytes as usize);
        let unpacked = self.unpack_payload(&region)?;
        let mut bytes = region.bytes;
        let raw = if let Some(raw) = unpacked {
            self.spare.give(bytes);
            raw
        } else {
            bytes.drain(..region.payload_at);
            bytes
        };
        if raw.len() == raw_len {
            Ok(raw)
        } else {
            Err(place_error(place, "length differs from its header's"))
        }
    }

    /// The same, and the region stays. `None`: its payload is not compressed.
    fn unpack_payload(&self, region: &OpenedRegion) -> Result<Option<Vec<u8>>> {
        let packed = match region.header.codec {
            Codec::None => return Ok(None),
            Codec::Zstd => Packed::Zstd,
            Codec::Lz4 => Packed::Lz4,
            Codec::ZstdX86 => Packed::ZstdX86,
        };
        let raw_len = region.header.raw_bytes as usize;
        let raw = decompress(packed, region.payload(), raw_len, self.spare.take(raw_len));
        raw.map(Some).map_err(|e| place_error(region.place, e))
    }

    /// The same for who knows its chunks by a directory, which must agree about their lengths.
    pub fn unpacked(&self, region: OpenedRegion, chunks: &[(Fingerprint, u32)]) -> Result<Vec<u8>> {
        let (place, count) = (region.place, region.header.chunk_count);
        let raw = self.unpack(region)?;
        check_lengths(place, count, &raw, chunks)?;
        Ok(raw)
    }

    /// True when this is what the chunk is called.
    pub fn is_called(&self, chunks: &[(Fingerprint, &[u8])]) -> bool {
        let bytes = chunks.iter().map(|(_, chunk)| *chunk);
        let found = self.fingerprints.fingerprints(bytes);
        found.iter().eq(chunks.iter().map(|(name, _)| name))
    }

    /// Takes the memory of what nobody needs any more for the next ones.
    pub fn reuse_bytes(&self, bytes: Vec<u8>) {
        self.spare.give(bytes);
    }

    /// The same.
    pub fn reuse_opened(&self, region: OpenedRegion) {
        self.spare.give(region.bytes);
    }
}

/// Fails unless these are the lengths of the chunks that a directory tells.
fn check_lengths(
    place: RegionPlace,
    count: u32,
    raw: &[u8],
    chunks: &[(Fingerprint, u32)],
) -> Result<()> {
    let (_, lengths) = split_region(raw, count).map_err(|e| place_error(place, e))?;
    match lengths.iter().eq(chunks.iter().map(|(_, len)| len)) {
        true => Ok(()),
        false => Err(place_error(place, "not the chunks of its directory")),
    }
}

/// Decompresses into the memory of `raw`.
fn decompress(
    packed: Packed,
    payload: &[u8],
    raw_len: usize,
    raw: Vec<u8>,
) -> std::result::Result<Vec<u8>, String> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(Decompressor::new().map_err(|e| e.to_string())?);
        }
        let Some(decompressor) = slot else {
            return Err(String::new());
        };
        decompressor
            .unpack(packed, payload, raw_len, raw)
            .map_err(|e| e.to_string())
    })
}

/// Memory that fails, for tests: a bit of the payload is inverted once.
#[cfg(feature = "testing")]
pub mod flip {
    use std::cell::Cell;

    /// Between which two looks at a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum When {
        /// After checksum and seal, before the fingerprints.
        Opened,
        /// After the fingerprints, before the new seal.
        Appended,
    }

    thread_local! {
        static NEXT: Cell<Option<When>> = const { Cell::new(None) };
    }

    /// The next region of this thread is struck.
    pub fn next(when: When) {
        NEXT.set(Some(when));
    }

    /// True until it was.
    pub fn is_waiting() -> bool {
        NEXT.get().is_some()
    }

    /// Strikes in the first half of what begins at `from`, of long payloads: regions, no
    /// directories.
    pub fn strike(when: When, bytes: &mut [u8], from: usize) {
        let payload = bytes.get_mut(from..).unwrap_or_default();
        if NEXT.get() == Some(when) && payload.len() > 4096 {
            NEXT.set(None);
            let middle = payload.len() / 2;
            payload[middle] ^= 1;
        }
    }
}
