//! Fills a container in memory: chunks into regions, regions into the blob. Lanes and garbage
//! collection call this.
//!
//! ```text
//! header | region | region | ... | directory | parity | footer
//! ```
//!
//! Bytes that do not compress are stored in small regions, so that a reader of a few of them reads
//! no more: nothing is gained by keeping them together.
//!
//! Invariant: a region is compressed and sealed once, under a nonce (its number) that is never used
//! again with the container's key. Its sector names it: see [`format::container::find_region`].

use super::nonce::nonce_of;
use super::reader::ProvenRegion;
use crate::error::Result;
use crate::superblock::MasterKey;
use chunking::{Compressor, Packed, SealKey};
use format::config::{Codec, Seal};
use format::container::{
    ContainerClass, ContainerHeader, DIRECTORY_INDEX, Directory, DirectoryRegion, HEADER_BYTES,
    REGION_ALIGN_BYTES, REGION_HEADER_BYTES, RegionHeader, SECTOR_BYTES, find_region,
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

/// Chunks of data that do not compress are stored in regions that are closed at this size, bytes.
pub const PLAIN_REGION_BYTES: usize = 16 << 10;

/// A region in a container that is being filled.
#[derive(Debug)]
pub struct Appended {
    /// Sector in which it begins.
    pub sector: u32,
    /// Number of sectors with its bytes.
    pub sectors: u32,
    /// Fingerprint and length of each of its chunks.
    pub chunks: Vec<(Fingerprint, u32)>,
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
    /// Regions may begin within sectors.
    packs: bool,
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

/// Facts that all containers of a session share.
pub struct ContainerSettings<'a> {
    /// The pool.
    pub pool: PoolId,
    /// How payloads are sealed, with a key that `master` gives.
    pub seal: Seal,
    /// The pool's key.
    pub master: &'a MasterKey,
    /// Generation in the header.
    pub generation: Generation,
    /// Parity in percent of the data; 0: none.
    pub parity_percent: u8,
    /// Regions may begin within sectors. The pool's readers must know that.
    pub packs: bool,
}

impl ContainerSettings<'_> {
    /// Creates an empty container with a fresh salt, in the memory of `blob`. `capacity` is its
    /// expected size without parity, bytes.
    pub fn begin(
        &self,
        id: ContainerId,
        class: ContainerClass,
        random: &dyn Random,
        mut blob: Vec<u8>,
        capacity: usize,
    ) -> ContainerBuilder {
        let mut salt = [0; 32];
        random.fill(&mut salt);
        blob.clear();
        blob.reserve(with_parity(capacity, self.parity_percent));
        blob.resize(HEADER_BYTES, 0);
        ContainerBuilder {
            header: ContainerHeader {
                pool: self.pool,
                id,
                class,
                seal: self.seal,
                salt,
                region_count: 0,
                directory_sector: 0,
                blob_bytes: 0,
                generation: self.generation,
                parity: None,
            },
            key: self.master.container_key(self.seal, &salt),
            blob,
            directory: Directory::default(),
            directory_bytes: 0,
            parity_percent: self.parity_percent,
            packs: self.packs,
        }
    }
}

impl ContainerBuilder {
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
        let regions = self.directory.regions.len() + raw_bytes / PLAIN_REGION_BYTES;
        self.blob.len() + self.directory_bytes + raw_bytes > target
            || regions >= usize::from(DIRECTORY_INDEX - 1)
    }

    /// Compresses, seals and appends the chunks of a region, and clears the builder. Calls
    /// `appended` with the region, or with each small one if the chunks do not compress.
    pub fn append(
        &mut self,
        region: &mut RegionBuilder,
        with: &mut Compressor,
        appended: &mut dyn FnMut(Appended) -> Result<()>,
    ) -> Result<()> {
        let RegionBuilder { raw, chunks } = region;
        let data_bytes = raw.len();
        for (_, len) in chunks.iter() {
            raw.extend_from_slice(&len.to_le_bytes());
        }
        let start = self.begin_payload();
        if let Some(packed) = with.compress(raw, &mut self.blob) {
            let index = self.next_index();
            let placed = self.end_payload(start, index, codec_of(packed), raw.len(), chunks.len());
            let chunks = std::mem::take(chunks);
            region.clear();
            return appended(self.enter(placed, chunks));
        }
        self.blob.truncate(start);
        let region_bytes = match self.header.class {
            ContainerClass::Data => PLAIN_REGION_BYTES,
            // Fingerprints do not compress either, but their readers need neighbours soon.
            ContainerClass::Recipe => usize::MAX,
        };
        let mut rest = raw.part(..data_bytes)?;
        let mut chunks = std::mem::take(chunks).into_iter().peekable();
        while chunks.peek().is_some() {
            let (mut few, mut bytes) = (Vec::new(), 0);
            while bytes < region_bytes
                && let Some((name, len)) = chunks.next()
            {
                bytes += len as usize;
                few.push((name, len));
            }
            let start = self.begin_payload();
            self.blob.extend_from_slice(rest.part(..bytes)?);
            for (_, len) in &few {
                self.blob.extend_from_slice(&len.to_le_bytes());
            }
            rest = rest.part(bytes..)?;
            let (index, raw_bytes) = (self.next_index(), bytes + 4 * few.len());
            let placed = self.end_payload(start, index, Codec::None, raw_bytes, few.len());
            appended(self.enter(placed, few))?;
        }
        region.clear();
        Ok(())
    }

    fn next_index(&self) -> u16 {
        self.directory.regions.len() as u16
    }

    /// Seals and appends a region as another container stores it, compressed or not. Returns `None`
    /// and appends nothing if the copied payload differs from the proven one.
    pub fn append_proven(
        &mut self,
        proven: &ProvenRegion,
        chunks: &[(Fingerprint, u32)],
    ) -> Option<Appended> {
        let region = proven.opened();
        let index = self.next_index();
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
        let placed = self.end_payload(start, index, region.codec(), raw_bytes, chunks.len());
        Some(self.enter(placed, chunks.to_vec()))
    }

    /// Adds the region that was appended last to the directory.
    fn enter(&mut self, placed: Placed, chunks: Vec<(Fingerprint, u32)>) -> Appended {
        self.directory_bytes += Directory::region_bytes(chunks.len());
        self.directory.regions.push(DirectoryRegion {
            sector: placed.sector,
            stored_bytes: placed.stored_bytes,
            chunks: chunks.clone(),
        });
        Appended {
            sector: placed.sector,
            sectors: placed.sectors,
            chunks,
        }
    }

    /// Appends space for a region's header, in a new sector if a region begins in this one. The
    /// caller appends its payload. Returns where the region starts.
    fn begin_payload(&mut self) -> usize {
        let last = self.directory.regions.last();
        let is_taken = last.is_some_and(|last| last.sector as usize >= self.blob.len() / SECTOR);
        if is_taken {
            self.end_sector();
        }
        let start = self.blob.len();
        self.blob.resize(start + REGION_HEADER_BYTES, 0);
        start
    }

    /// Fills the sector with zeroes.
    fn end_sector(&mut self) {
        let end = self.blob.len().next_multiple_of(SECTOR);
        self.blob.resize(end, 0);
    }

    /// Seals the payload that was appended since [`Self::begin_payload`], and writes its header.
    fn end_payload(
        &mut self,
        mut start: usize,
        index: u16,
        codec: Codec,
        raw_bytes: usize,
        chunk_count: usize,
    ) -> Placed {
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
        let within = start % SECTOR;
        let (_, sector) = self.blob.split_at(start - within);
        let found = find_region(sector, header.container).map(|(at, _)| at);
        if found != Some(within) {
            // The end of the region before looks like a header. Nothing is before a header at a
            // sector boundary.
            let gap = std::iter::repeat_n(0, SECTOR - within);
            self.blob.splice(start..start, gap);
            start += SECTOR - within;
        }
        let sector = start / SECTOR;
        let sectors = self.blob.len().div_ceil(SECTOR) - sector;
        let end = self.blob.len().next_multiple_of(match self.packs {
            true => REGION_ALIGN_BYTES,
            false => SECTOR,
        });
        self.blob.resize(end, 0);
        Placed {
            sector: sector as u32,
            sectors: sectors as u32,
            stored_bytes: header.stored_bytes,
        }
    }

    /// Appends directory, parity and footer, and writes the header.
    pub fn finish(mut self, with: &mut Compressor) -> Finished {
        let mut raw = self.directory.encode();
        let chunk_count = self.directory.chunk_count();
        self.end_sector();
        let start = self.begin_payload();
        let codec = match with.compress(&mut raw, &mut self.blob) {
            Some(packed) => codec_of(packed),
            None => {
                self.blob.extend_from_slice(&raw);
                Codec::None
            }
        };
        let placed = self.end_payload(start, DIRECTORY_INDEX, codec, raw.len(), chunk_count);
        self.end_sector();
        self.header.region_count = self.next_index();
        self.header.directory_sector = placed.sector;
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

/// Where a region was appended.
struct Placed {
    sector: u32,
    sectors: u32,
    stored_bytes: u32,
}

const SECTOR: usize = SECTOR_BYTES as usize;

fn codec_of(packed: Packed) -> Codec {
    match packed {
        Packed::Zstd => Codec::Zstd,
        Packed::Lz4 => Codec::Lz4,
        Packed::ZstdX86 => Codec::ZstdX86,
    }
}

/// Returns the size of a container of `bytes` bytes with its parity.
fn with_parity(bytes: usize, percent: u8) -> usize {
    ParityShape::plan(bytes, percent).map_or(bytes, |shape| shape.blob_bytes().max(bytes))
}
