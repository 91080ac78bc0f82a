//! Fills a container in memory: chunks into regions, regions into the blob. Lanes and garbage
//! collection call this.
//!
//! ```text
//! header | region | region | ... | directory | parity | footer
//! ```
//!
//! Invariant: a region is compressed and sealed once, under a nonce (its number) that is never used
//! again with the container's key.

use super::nonce::nonce_of;
use super::reader::ProvenRegion;
use crate::error::Result;
use crate::superblock::MasterKey;
use chunking::{Compressor, Packed, SealKey};
use format::config::{Codec, Seal};
use format::container::{
    ContainerClass, ContainerHeader, DIRECTORY_INDEX, Directory, DirectoryRegion, HEADER_BYTES,
    REGION_HEADER_BYTES, RegionHeader, SECTOR_BYTES,
};
use format::parity::{self, ParityShape};
use media::Random;
use units::{ContainerId, Fingerprint, Generation, Part, PoolId};

/// Chunks of one region that is not compressed yet.
#[derive(Default)]
pub struct RegionBuilder {
    raw: Vec<u8>,
    chunks: Vec<(Fingerprint, u32)>,
}

impl RegionBuilder {
    /// Appends a chunk.
    pub fn push(&mut self, fingerprint: Fingerprint, chunk: &[u8]) {
        self.raw.extend_from_slice(chunk);
        self.chunks.push((fingerprint, chunk.len() as u32));
    }

    /// Returns the raw bytes so far, including the list of lengths after the chunks.
    pub fn len(&self) -> usize {
        self.raw.len() + 4 * self.chunks.len()
    }

    /// Returns true if there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns fingerprint and length of each chunk so far.
    pub fn chunks(&self) -> &[(Fingerprint, u32)] {
        &self.chunks
    }

    /// Takes the chunks out, in order.
    pub fn into_chunks(self) -> impl Iterator<Item = Result<(Fingerprint, Vec<u8>)>> {
        let Self { raw, chunks } = self;
        let mut start = 0;
        chunks.into_iter().map(move |(fingerprint, len)| {
            let end = start + len as usize;
            let chunk = raw.part(start..end)?.to_vec();
            start = end;
            Ok((fingerprint, chunk))
        })
    }

    fn clear(&mut self) {
        self.raw.clear();
        self.chunks.clear();
    }
}

/// A container that is being filled.
pub struct ContainerBuilder {
    header: ContainerHeader,
    key: Option<SealKey>,
    blob: Vec<u8>,
    directory: Directory,
    /// Size of the directory before compression, bytes.
    directory_bytes: usize,
    /// Parity in percent of the data; 0: none.
    parity_percent: u8,
}

/// A full container, ready to be put.
pub struct Finished {
    /// Its number.
    pub id: ContainerId,
    /// Kind of its contents.
    pub class: ContainerClass,
    /// All its bytes.
    pub blob: Vec<u8>,
}

impl ContainerBuilder {
    /// Creates an empty container with a fresh salt, in the memory of `blob`. `capacity` is its
    /// expected size without parity, bytes.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        pool: PoolId,
        id: ContainerId,
        class: ContainerClass,
        generation: Generation,
        seal: Seal,
        master: &MasterKey,
        random: &dyn Random,
        mut blob: Vec<u8>,
        capacity: usize,
        parity_percent: u8,
    ) -> Self {
        let mut salt = [0; 32];
        random.fill(&mut salt);
        blob.clear();
        blob.reserve(with_parity(capacity, parity_percent));
        blob.resize(HEADER_BYTES, 0);
        Self {
            header: ContainerHeader {
                pool,
                id,
                class,
                seal,
                salt,
                region_count: 0,
                directory_sector: 0,
                blob_bytes: 0,
                generation,
                parity: None,
            },
            key: master.container_key(seal, &salt),
            blob,
            directory: Directory::default(),
            directory_bytes: 0,
            parity_percent,
        }
    }

    /// Returns its number.
    pub fn id(&self) -> ContainerId {
        self.header.id
    }

    /// Returns about how many bytes it has if it is finished now, without parity.
    pub fn bytes(&self) -> usize {
        self.blob.len() + self.directory_bytes + HEADER_BYTES
    }

    /// Returns true if another region of `raw_bytes` would exceed `target`. An empty container
    /// takes any region. The directory counts too: it is large if chunks compress well, and a blob
    /// that outgrows its memory takes twice as much.
    pub fn is_full(&self, raw_bytes: usize, target: usize) -> bool {
        if self.directory.regions.is_empty() {
            return false;
        }
        self.blob.len() + self.directory_bytes + raw_bytes > target
            || self.directory.regions.len() >= usize::from(DIRECTORY_INDEX - 1)
    }

    /// Compresses, seals and appends a region, and clears the builder. Returns (sector, sectors).
    pub fn append(&mut self, region: &mut RegionBuilder, with: &mut Compressor) -> (u32, u32) {
        let index = self.directory.regions.len() as u16;
        let RegionBuilder { raw, chunks } = region;
        for (_, len) in chunks.iter() {
            raw.extend_from_slice(&len.to_le_bytes());
        }
        let (sector, stored_bytes) = self.append_payload(index, raw, chunks.len(), with);
        let chunks = std::mem::take(chunks);
        region.clear();
        self.enter(sector, stored_bytes, chunks)
    }

    /// Seals and appends a region as another container stores it, compressed or not. Returns
    /// (sector, sectors). Returns `None` and appends nothing if the copied payload differs from the
    /// proven one.
    pub fn append_proven(
        &mut self,
        proven: &ProvenRegion,
        chunks: &[(Fingerprint, u32)],
    ) -> Option<(u32, u32)> {
        let region = proven.opened();
        let index = self.directory.regions.len() as u16;
        let start = self.begin_payload();
        self.blob.extend_from_slice(region.payload());
        let payload_at = start + REGION_HEADER_BYTES;
        #[cfg(feature = "testing")]
        super::flip::strike(super::flip::When::Appended, &mut self.blob, payload_at);
        if !proven.is_payload(self.blob.split_at(payload_at).1) {
            self.blob.truncate(start);
            return None;
        }
        let raw_bytes = region.raw_bytes() as usize;
        let (sector, stored_bytes) =
            self.end_payload(start, index, region.codec(), raw_bytes, chunks.len());
        Some(self.enter(sector, stored_bytes, chunks.to_vec()))
    }

    /// Adds the region that was appended last to the directory.
    fn enter(
        &mut self,
        sector: u32,
        stored_bytes: u32,
        chunks: Vec<(Fingerprint, u32)>,
    ) -> (u32, u32) {
        self.directory_bytes += Directory::region_bytes(chunks.len());
        self.directory.regions.push(DirectoryRegion {
            sector,
            stored_bytes,
            chunks,
        });
        let sectors = (self.blob.len() as u32) / SECTOR_BYTES - sector;
        (sector, sectors)
    }

    /// Compresses and appends a payload. The contents of `raw` are undefined afterwards. Returns
    /// (sector, stored bytes).
    fn append_payload(
        &mut self,
        index: u16,
        raw: &mut [u8],
        chunk_count: usize,
        with: &mut Compressor,
    ) -> (u32, u32) {
        let start = self.begin_payload();
        let codec = match with.compress(raw, &mut self.blob) {
            Some(Packed::Zstd) => Codec::Zstd,
            Some(Packed::Lz4) => Codec::Lz4,
            Some(Packed::ZstdX86) => Codec::ZstdX86,
            None => {
                self.blob.extend_from_slice(raw);
                Codec::None
            }
        };
        self.end_payload(start, index, codec, raw.len(), chunk_count)
    }

    /// Appends space for a region's header. The caller appends its payload. Returns where the
    /// region starts.
    fn begin_payload(&mut self) -> usize {
        let start = self.blob.len();
        debug_assert!(start.is_multiple_of(SECTOR_BYTES as usize));
        self.blob.resize(start + REGION_HEADER_BYTES, 0);
        start
    }

    /// Seals the payload that was appended since [`Self::begin_payload`], and writes its header.
    /// Returns (sector, stored bytes).
    fn end_payload(
        &mut self,
        start: usize,
        index: u16,
        codec: Codec,
        raw_bytes: usize,
        chunk_count: usize,
    ) -> (u32, u32) {
        let payload_at = start + REGION_HEADER_BYTES;
        let tag = if self.key.is_some() {
            chunking::TAG_BYTES
        } else {
            0
        };
        let mut header = RegionHeader {
            container: self.header.id,
            index,
            codec,
            stored_bytes: (self.blob.len() - payload_at + tag) as u32,
            raw_bytes: raw_bytes as u32,
            chunk_count: chunk_count as u32,
            payload_checksum: 0,
        };
        if let Some(key) = &self.key {
            let bound = header.associated_data();
            key.seal(nonce_of(index), &bound, &mut self.blob, payload_at);
        }
        let (_, payload) = self.blob.split_at(payload_at);
        header.payload_checksum = RegionHeader::checksum_payload(header.container, index, payload);
        if let Some(place) = self.blob.get_mut(start..payload_at) {
            place.copy_from_slice(&header.encode());
        }
        let end = self.blob.len().next_multiple_of(SECTOR_BYTES as usize);
        self.blob.resize(end, 0);
        ((start as u32) / SECTOR_BYTES, header.stored_bytes)
    }

    /// Appends directory, parity and footer, and writes the header.
    pub fn finish(mut self, with: &mut Compressor) -> Finished {
        let mut raw = self.directory.encode();
        let chunk_count = self.directory.chunk_count();
        let (sector, _) = self.append_payload(DIRECTORY_INDEX, &mut raw, chunk_count, with);
        self.header.region_count = self.directory.regions.len() as u16;
        self.header.directory_sector = sector;
        let parity = ParityShape::plan(self.blob.len(), self.parity_percent);
        let without = self.blob.len() + HEADER_BYTES;
        self.header.parity = parity;
        self.header.blob_bytes = parity.map_or(without, |p| p.blob_bytes()) as u32;
        let head = self.header.encode(false);
        if let Some(place) = self.blob.get_mut(..HEADER_BYTES) {
            place.copy_from_slice(&head);
        }
        match parity {
            Some(shape) => {
                parity::append(self.header.pool, self.header.id, shape, &mut self.blob);
            }
            None => self.blob.extend_from_slice(&self.header.encode(true)),
        }
        Finished {
            id: self.header.id,
            class: self.header.class,
            blob: self.blob,
        }
    }
}

/// Returns the size of a container of `bytes` bytes with its parity.
fn with_parity(bytes: usize, percent: u8) -> usize {
    ParityShape::plan(bytes, percent).map_or(bytes, |shape| shape.blob_bytes().max(bytes))
}
