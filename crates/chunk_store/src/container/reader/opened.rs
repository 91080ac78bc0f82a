//! Regions in states between stored bytes and verified chunks, for callers that copy regions:
//! garbage collection and the container reader itself.
//!
//! ```text
//! FetchedRegion --checksum, seal--> OpenedRegion --fingerprints--> ProvenRegion
//! ```
//!
//! Invariant: the bytes of an opened region were stored at this place by an owner of the pool's
//! keys (checksum, and seal if the pool is sealed). Its decompressed contents are not verified. In
//! a proven region every chunk matched its fingerprint. The payload of a proven region must not
//! have changed since: code that seals it again checks [`ProvenRegion::is_payload`].

use super::{ContainerReader, ReadBy, RegionPlace, Shape, place_error, verify_stored};
use crate::container::nonce::nonce_of;
use crate::error::Result;
use chunking::{Decompressor, Packed};
use format::config::Codec;
use format::container::{DIRECTORY_INDEX, REGION_HEADER_BYTES, RegionHeader, split_region};
use std::cell::RefCell;
use std::sync::Arc;
use units::{Fingerprint, Part};

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

/// A region as read. Only the container in its header was checked.
pub struct FetchedRegion {
    shape: Arc<Shape>,
    place: RegionPlace,
    header: RegionHeader,
    bytes: Vec<u8>,
}

impl FetchedRegion {
    /// Returns how many bytes were read.
    pub fn bytes_read(&self) -> usize {
        self.bytes.len()
    }

    /// Checks the checksum and opens the seal.
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
                    return Err(place_error(place, "its seal does not verify"));
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

    /// Returns how the payload is compressed.
    pub fn codec(&self) -> Codec {
        self.header.codec
    }

    /// Returns the length after decompression: the chunks and the list of their lengths.
    pub fn raw_bytes(&self) -> u32 {
        self.header.raw_bytes
    }

    /// Returns the opened payload, still compressed.
    pub fn payload(&self) -> &[u8] {
        self.bytes.split_at(self.payload_at).1
    }

    fn checksum_of(&self, payload: &[u8]) -> u64 {
        RegionHeader::checksum_payload(self.header.container, self.header.index, payload)
    }

    /// Returns true if these chunks of a directory match its count and length.
    pub fn is_of(&self, chunks: &[(Fingerprint, u32)]) -> bool {
        let bytes: u64 = chunks.iter().map(|(_, len)| u64::from(*len) + 4).sum();
        self.header.chunk_count as usize == chunks.len()
            && u64::from(self.header.raw_bytes) == bytes
    }
}

/// Opens a region in the memory of `stored`, its header included. Returns the payload, still
/// compressed.
pub(super) fn opened_in_place<'a>(
    shape: &Shape,
    header: &RegionHeader,
    place: RegionPlace,
    stored: &'a mut [u8],
) -> Result<&'a [u8]> {
    let mut payload = stored.part_mut(REGION_HEADER_BYTES..)?;
    if let Some(key) = &shape.key {
        let (nonce, bound) = (nonce_of(header.index), header.associated_data());
        let opened = key.open_in_place(nonce, &bound, payload);
        payload = opened.ok_or_else(|| place_error(place, "its seal does not verify"))?;
    }
    #[cfg(feature = "testing")]
    flip::strike(flip::When::Opened, payload, 0);
    Ok(payload)
}

/// An opened region whose chunks matched their fingerprints.
pub struct ProvenRegion {
    region: OpenedRegion,
    /// Checksum of the payload from before the fingerprints were compared.
    checksum: u64,
}

impl ProvenRegion {
    /// Returns the opened region.
    pub fn opened(&self) -> &OpenedRegion {
        &self.region
    }

    /// Returns the opened region, for a caller that packs its chunks anew.
    pub fn into_opened(self) -> OpenedRegion {
        self.region
    }

    /// Returns true if `payload`, a copy that will be sealed, is the payload that was compared.
    /// Otherwise a memory error in between would be sealed as good data.
    pub fn is_payload(&self, payload: &[u8]) -> bool {
        self.region.checksum_of(payload) == self.checksum
    }
}

impl ContainerReader {
    /// Compares all chunks of a region with their fingerprints. Returns `None` if one differs.
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

    /// Reads a region without checking its checksum.
    pub fn fetched(&self, place: RegionPlace, sectors_hint: u32) -> Result<FetchedRegion> {
        let shape = self.shape(place.container)?;
        let (header, bytes) = self.read_stored(place, sectors_hint, &mut ReadBy::default())?;
        if header.index == DIRECTORY_INDEX {
            let why = "found a directory instead of a region";
            return Err(place_error(place, why));
        }
        Ok(FetchedRegion {
            shape,
            place,
            header,
            bytes,
        })
    }

    /// Returns a region that parity restored, opened, or `None` if parity cannot restore it.
    pub fn opened_restored(&self, place: RegionPlace) -> Option<OpenedRegion> {
        let (shape, header, bytes) = self.restored_bytes(place)?;
        if header.index == DIRECTORY_INDEX {
            return None;
        }
        OpenedRegion::open(&shape, header, place, bytes).ok()
    }

    /// Returns the contents: chunk bytes, then the list of lengths.
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
            Err(place_error(place, "its length differs from its header"))
        }
    }

    /// Decompresses the payload and leaves the region as it is. Returns `None` if the payload is
    /// not compressed.
    fn unpack_payload(&self, region: &OpenedRegion) -> Result<Option<Vec<u8>>> {
        self.unpack_bytes(&region.header, region.place, region.payload())
    }

    /// Does the same for a payload that is somewhere else.
    pub(super) fn unpack_bytes(
        &self,
        header: &RegionHeader,
        place: RegionPlace,
        payload: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let packed = match header.codec {
            Codec::None => return Ok(None),
            Codec::Zstd => Packed::Zstd,
            Codec::Lz4 => Packed::Lz4,
            Codec::ZstdX86 => Packed::ZstdX86,
        };
        let raw_len = header.raw_bytes as usize;
        let raw = decompress(packed, payload, raw_len, self.spare.take(raw_len));
        raw.map(Some).map_err(|e| place_error(place, e))
    }

    /// Decompresses a region whose chunks a directory lists. Fails if the directory's lengths
    /// differ.
    pub fn unpacked(&self, region: OpenedRegion, chunks: &[(Fingerprint, u32)]) -> Result<Vec<u8>> {
        let (place, count) = (region.place, region.header.chunk_count);
        let raw = self.unpack(region)?;
        check_lengths(place, count, &raw, chunks)?;
        Ok(raw)
    }

    /// Returns true if each chunk matches its fingerprint.
    pub fn is_called(&self, chunks: &[(Fingerprint, &[u8])]) -> bool {
        let bytes = chunks.iter().map(|(_, chunk)| *chunk);
        let found = self.fingerprints.fingerprints(bytes);
        found.iter().eq(chunks.iter().map(|(name, _)| name))
    }

    /// Takes memory that is no longer needed into the buffer pool.
    pub fn reuse_bytes(&self, bytes: Vec<u8>) {
        self.spare.give(bytes);
    }

    /// Takes the memory of a region that is no longer needed into the buffer pool.
    pub fn reuse_opened(&self, region: OpenedRegion) {
        self.spare.give(region.bytes);
    }
}

/// Fails unless the chunks have the lengths that a directory lists.
fn check_lengths(
    place: RegionPlace,
    count: u32,
    raw: &[u8],
    chunks: &[(Fingerprint, u32)],
) -> Result<()> {
    let (_, lengths) = split_region(raw, count).map_err(|e| place_error(place, e))?;
    match lengths.iter().eq(chunks.iter().map(|(_, len)| len)) {
        true => Ok(()),
        false => Err(place_error(place, "its chunks differ from its directory")),
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

/// Simulates failing memory in tests: inverts one bit of a payload once.
#[cfg(feature = "testing")]
pub mod flip {
    use std::cell::Cell;

    /// Selects the two checks between which the bit flips.
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

    /// Arms the flip for the next region of this thread.
    pub fn next(when: When) {
        NEXT.set(Some(when));
    }

    /// Returns true until the flip has happened.
    pub fn is_waiting() -> bool {
        NEXT.get().is_some()
    }

    /// Flips a bit in the middle of `bytes[from..]` if the payload is long: that is a region and
    /// not a directory.
    pub fn strike(when: When, bytes: &mut [u8], from: usize) {
        let (_, payload) = bytes.split_at_mut(from);
        if NEXT.get() == Some(when) && payload.len() > 4096 {
            NEXT.set(None);
            let middle = payload.len() / 2;
            payload[middle] ^= 1;
        }
    }
}
