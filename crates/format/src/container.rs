//! Encodes the container: an immutable blob that describes itself. The store's container builder
//! and readers call this.
//!
//! Invariant: header and footer are two copies of one description. Every region (and the directory,
//! which is stored like one) states its type, its place and its length, so each part can be lost
//! without the others. At most one region begins in a sector, so a sector is a region's place.
//!
//! ```text
//! header 512 | region | region | ... | directory | parity, perhaps | footer 512
//! region = region header 48 | stored payload | zeroes up to the next region
//! raw region = chunk bytes ... | chunk lengths, u32 each
//! ```

mod places;

pub use crate::container_sizes::{
    CONTAINER_BYTES_MAX, DIRECTORY_INDEX, DIRECTORY_RAW_BYTES_MAX, HEADER_BYTES,
    REGION_HEADER_BYTES, REGION_RAW_BYTES_MAX, REGION_STORED_BYTES_MAX, SECTOR_BYTES,
};
pub use places::{
    REGION_ALIGN_BYTES, find_region, following, may_follow, next_region, sectors_max,
};

use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use crate::config::{Codec, Seal};
use crate::parity_shape::ParityShape;
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use crate::stored::{Stored, stored};
use units::{ContainerId, Fingerprint, Generation, PoolId};

/// Version of this layout. 1: 2026-11, first.
pub const CONTAINER_VERSION: u16 = 1;

const WHAT: &str = "container header";
const REGION: &str = "region header";
const REGION_MAGIC: u32 = u32::from_le_bytes(*b"QRGN");
const _: () = assert!(CONTAINER_BYTES_MAX / SECTOR_BYTES <= 1 << 16);

stored! {
    /// Class of a container's contents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ContainerClass: "class" {
        /// Chunks of user data.
        Data = 0,
        /// Recipe nodes, directories, catalog nodes.
        Recipe = 1,
    }
}

/// The description at both ends of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerHeader {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Its number.
    pub id: ContainerId,
    /// Class of its contents.
    pub class: ContainerClass,
    /// Encryption of payloads.
    pub seal: Seal,
    /// Random. The payload key is derived from it, so keys never repeat.
    pub salt: [u8; 32],
    /// Number of regions.
    pub region_count: u16,
    /// Start of the directory's region header, sectors.
    pub directory_sector: u32,
    /// Length of the whole blob, bytes.
    pub blob_bytes: u32,
    /// The generation that its writer was going to commit.
    pub generation: Generation,
    /// Layout of its parity. `None`: it has no parity of a known layout.
    pub parity: Option<ParityShape>,
}

impl ContainerHeader {
    /// Encodes the 512 bytes. `footer` selects the end.
    pub fn encode(&self, footer: bool) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(BlobKind::Container, CONTAINER_VERSION, self.pool, &mut w);
        w.u64(self.id.0)
            .u8(self.class as u8)
            .u8(self.seal as u8)
            .u16(self.region_count)
            .u32(self.directory_sector)
            .u32(self.blob_bytes)
            .u8(u8::from(footer))
            .bytes(&[0; 3])
            .u64(self.generation.0)
            .bytes(&self.salt);
        if let Some(parity) = self.parity {
            parity.put(&mut w);
        }
        w.0.resize(HEADER_BYTES - 8, 0);
        let sum = checksum(BlobKind::Container.seed(), &w.0);
        w.u64(sum);
        w.0
    }

    /// Decodes the 512 bytes at either end.
    pub fn decode(bytes: &[u8], footer: bool) -> Result<Self> {
        let preamble =
            Preamble::decode(bytes)?.expect(WHAT, BlobKind::Container, CONTAINER_VERSION)?;
        let mut whole = Reader::new(WHAT, bytes);
        let covered = whole.take(HEADER_BYTES - 8)?;
        verify(WHAT, BlobKind::Container.seed(), covered, whole.u64()?)?;
        let mut r = Reader::new(WHAT, covered);
        r.take(PREAMBLE_BYTES)?;
        let id = ContainerId(r.u64()?);
        let class = ContainerClass::decode(&mut r)?;
        let seal = Seal::decode(&mut r)?;
        let (region_count, directory_sector, blob_bytes) = (r.u16()?, r.u32()?, r.u32()?);
        if r.u8()? != u8::from(footer) {
            return Err(r.error(Fault::Misplaced));
        }
        r.take(3)?;
        let (generation, salt) = (Generation(r.u64()?), r.array()?);
        let parity = ParityShape::take(&mut r)?;
        let header = Self {
            pool: preamble.pool,
            id,
            class,
            seal,
            region_count,
            directory_sector,
            blob_bytes,
            generation,
            salt,
            // Treat an impossible shape as none: the rest of the container is read without parity.
            parity: parity
                .checked()
                .filter(|shape| shape.blob_bytes() == blob_bytes as usize),
        };
        if header.blob_bytes > CONTAINER_BYTES_MAX
            || u64::from(header.directory_sector) * u64::from(SECTOR_BYTES)
                >= u64::from(header.blob_bytes)
        {
            return r.invalid("length");
        }
        Ok(header)
    }
}

/// Header before every stored payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHeader {
    /// The container it belongs to.
    pub container: ContainerId,
    /// Its number in the container; [`DIRECTORY_INDEX`] for the directory.
    pub index: u16,
    /// Compression of the payload.
    pub codec: Codec,
    /// Length of the stored payload, bytes, tag included.
    pub stored_bytes: u32,
    /// Length after decompression, bytes.
    pub raw_bytes: u32,
    /// Number of chunks inside.
    pub chunk_count: u32,
    /// XXH3-64 of the stored payload, seeded by place. A scrub needs no key to verify it.
    pub payload_checksum: u64,
}

impl RegionHeader {
    /// Returns the bytes that the seal binds: all but the checksums.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(REGION_MAGIC)
            .u16(self.index)
            .u8(self.codec as u8)
            .u8(0)
            .u64(self.container.0)
            .u32(self.stored_bytes)
            .u32(self.raw_bytes)
            .u32(self.chunk_count)
            .u32(0);
        w.0
    }

    /// Encodes the 48 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(self.associated_data());
        w.u64(self.payload_checksum);
        let sum = checksum(BlobKind::Container.seed() ^ 1, &w.0);
        w.u64(sum);
        w.0
    }

    /// Decodes 48 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(REGION, bytes);
        let covered = r.take(REGION_HEADER_BYTES - 8)?;
        let sum = r.u64()?;
        let mut r = Reader::new(REGION, covered);
        if r.u32()? != REGION_MAGIC {
            return Err(r.error(Fault::BadMagic));
        }
        verify(REGION, BlobKind::Container.seed() ^ 1, covered, sum)?;
        let index = r.u16()?;
        let codec = Codec::decode(&mut r)?;
        r.u8()?;
        let container = ContainerId(r.u64()?);
        let (stored_bytes, raw_bytes, chunk_count) = (r.u32()?, r.u32()?, r.u32()?);
        r.u32()?;
        let raw_max = if index == DIRECTORY_INDEX {
            DIRECTORY_RAW_BYTES_MAX
        } else {
            REGION_RAW_BYTES_MAX
        };
        let fits = match index {
            DIRECTORY_INDEX => stored_bytes <= CONTAINER_BYTES_MAX,
            _ => region_fits(stored_bytes),
        };
        if !fits || raw_bytes > raw_max {
            return r.invalid("length");
        }
        let payload_checksum = r.u64()?;
        Ok(Self {
            container,
            index,
            codec,
            stored_bytes,
            raw_bytes,
            chunk_count,
            payload_checksum,
        })
    }

    /// Computes the checksum of a payload at this place.
    pub fn checksum_payload(container: ContainerId, index: u16, payload: &[u8]) -> u64 {
        checksum(
            container.0.rotate_left(16) ^ u64::from(index) ^ BlobKind::Container.seed(),
            payload,
        )
    }

    /// Fails unless `payload` has the checksum of this header.
    pub fn verify_payload(&self, payload: &[u8]) -> Result<()> {
        let found = Self::checksum_payload(self.container, self.index, payload);
        if payload.len() == self.stored_bytes as usize && found == self.payload_checksum {
            return Ok(());
        }
        let expected = self.payload_checksum;
        Err(FormatError::new(
            "region",
            Fault::BadChecksum { expected, found },
        ))
    }

    /// Returns the length of header and payload, bytes.
    pub fn region_bytes(&self) -> usize {
        REGION_HEADER_BYTES + self.stored_bytes as usize
    }
}

/// Returns true when index entries can represent a region with this payload size that begins at a
/// sector boundary.
fn region_fits(stored_bytes: u32) -> bool {
    let bytes = (REGION_HEADER_BYTES as u32).saturating_add(stored_bytes);
    bytes.div_ceil(SECTOR_BYTES) <= REGION_STORED_BYTES_MAX / SECTOR_BYTES
}

/// Splits a raw region into the lengths of its chunks: `(chunk bytes, lengths)`.
pub fn split_region(raw: &[u8], chunk_count: u32) -> Result<(&[u8], Vec<u32>)> {
    const WHAT: &str = "region";
    let table = (chunk_count as usize)
        .checked_mul(4)
        .and_then(|t| raw.len().checked_sub(t));
    let Some((data, table)) = table.and_then(|at| raw.split_at_checked(at)) else {
        return Err(FormatError::new(WHAT, Fault::Truncated));
    };
    let mut r = Reader::new(WHAT, table);
    let mut lengths = Vec::with_capacity(chunk_count as usize);
    let mut total = 0u64;
    for _ in 0..chunk_count {
        let len = r.u32()?;
        total += u64::from(len);
        lengths.push(len);
    }
    if total != data.len() as u64 {
        return r.invalid("chunk lengths");
    }
    Ok((data, lengths))
}

/// One region according to the directory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DirectoryRegion {
    /// Start of its header, sectors.
    pub sector: u32,
    /// Length of its stored payload, bytes.
    pub stored_bytes: u32,
    /// Its chunks in order: fingerprint and length in bytes.
    pub chunks: Vec<(Fingerprint, u32)>,
}

/// The directory of a container: every chunk, region by region.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Directory {
    /// Regions in order.
    pub regions: Vec<DirectoryRegion>,
}

impl Directory {
    /// Returns the size that a region with this many chunks takes in the directory, uncompressed.
    pub fn region_bytes(chunks: usize) -> usize {
        12 + 36 * chunks
    }

    /// Encodes the raw bytes: region table, then all fingerprints, then all lengths. Columns
    /// compress better.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(self.regions.len() as u32);
        for region in &self.regions {
            w.u32(region.sector)
                .u32(region.stored_bytes)
                .u32(region.chunks.len() as u32);
        }
        for (fingerprint, _) in self.regions.iter().flat_map(|r| &r.chunks) {
            w.bytes(&fingerprint.0);
        }
        for (_, len) in self.regions.iter().flat_map(|r| &r.chunks) {
            w.u32(*len);
        }
        w.0
    }

    /// Decodes raw bytes.
    pub fn decode(raw: &[u8]) -> Result<Self> {
        let mut r = Reader::new("directory", raw);
        let count = r.u32()? as usize;
        if count >= usize::from(DIRECTORY_INDEX) {
            return r.invalid("count");
        }
        let mut table = Reader::new("directory", r.take(count * 12)?);
        let mut heads = Vec::with_capacity(count);
        let mut total = 0usize;
        for _ in 0..count {
            let head = (table.u32()?, table.u32()?, table.u32()? as usize);
            if head.0 >= CONTAINER_BYTES_MAX / SECTOR_BYTES || !region_fits(head.1) {
                return table.invalid("region");
            }
            total = total.saturating_add(head.2);
            heads.push(head);
        }
        let mut fingerprints = Reader::new("directory", r.take(total.saturating_mul(32))?);
        let mut lengths = Reader::new("directory", r.take(total.saturating_mul(4))?);
        r.finish()?;
        let mut regions = Vec::with_capacity(count);
        for (sector, stored_bytes, chunk_count) in heads {
            let mut chunks = Vec::with_capacity(chunk_count);
            for _ in 0..chunk_count {
                chunks.push((Fingerprint(fingerprints.array()?), lengths.u32()?));
            }
            regions.push(DirectoryRegion {
                sector,
                stored_bytes,
                chunks,
            });
        }
        Ok(Self { regions })
    }

    /// Returns the number of chunks in all regions.
    pub fn chunk_count(&self) -> usize {
        self.regions.iter().map(|r| r.chunks.len()).sum()
    }
}
