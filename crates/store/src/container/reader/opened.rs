//! A region between the device and its seal, and between that and its chunks: what who copies it may need no
//! more of.
//!
//! Invariant: of an opened one the stored bytes are what somebody who has the pool's keys stored at this place (checksum,
//! and seal where the pool is sealed); what they decompress to nobody has looked at. Called by the
//! container reader and the collector.

use super::{ContainerReader, ReadBy, RegionPlace, Shape, place_error, verify_stored};
use crate::container::builder::nonce_of;
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
pub(crate) struct FetchedRegion {
    shape: Arc<Shape>,
    place: RegionPlace,
    header: RegionHeader,
    bytes: Vec<u8>,
}

impl FetchedRegion {
    /// Bytes that were read.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Checks it and opens its seal.
    pub fn open(self) -> Result<OpenedRegion> {
        verify_stored(self.place, &self.header, &self.bytes)?;
        OpenedRegion::open(&self.shape, self.header, self.place, self.bytes)
    }
}

/// See the module's head.
pub(crate) struct OpenedRegion {
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

    /// True when these chunks, as a directory tells them, fill it.
    pub fn is_of(&self, chunks: &[(Fingerprint, u32)]) -> bool {
        let bytes: u64 = chunks.iter().map(|(_, len)| u64::from(*len) + 4).sum();
        self.header.chunk_count as usize == chunks.len()
            && u64::from(self.header.raw_bytes) == bytes
    }
}

impl ContainerReader {
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
        let OpenedRegion {
            place,
            header,
            mut bytes,
            payload_at,
        } = region;
        let raw_len = header.raw_bytes as usize;
        let packed = match header.codec {
            Codec::None => None,
            Codec::Zstd => Some(Packed::Zstd),
            Codec::Lz4 => Some(Packed::Lz4),
            Codec::ZstdX86 => Some(Packed::ZstdX86),
        };
        let raw = if let Some(packed) = packed {
            let payload = bytes.get(payload_at..).unwrap_or_default();
            let raw = decompress(packed, payload, raw_len, self.spare.take(raw_len))
                .map_err(|e| place_error(place, e))?;
            self.spare.give(bytes);
            raw
        } else {
            bytes.drain(..payload_at);
            bytes
        };
        if raw.len() == raw_len {
            Ok(raw)
        } else {
            Err(place_error(place, "length differs from its header's"))
        }
    }

    /// The same for who knows its chunks by a directory, which must agree about their lengths.
    pub fn unpacked(&self, region: OpenedRegion, chunks: &[(Fingerprint, u32)]) -> Result<Vec<u8>> {
        let (place, count) = (region.place, region.header.chunk_count);
        let raw = self.unpack(region)?;
        let (_, lengths) = split_region(&raw, count).map_err(|e| place_error(place, e))?;
        match lengths.iter().eq(chunks.iter().map(|(_, len)| len)) {
            true => Ok(raw),
            false => Err(place_error(place, "not the chunks of its directory")),
        }
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
