//! Defines the byte layout of the fingerprint index: the place of each entry, and the checksums of
//! pages. The store's index calls this.
//!
//! ```text
//! 0      header slot 0 (512 bytes used)   written alternately, the higher sequence number wins
//! 4096   header slot 1
//! 8192   2^k buckets of 4096 bytes        16 bytes of header, 340 entries of 12 bytes
//! ...    tail                             coverage, container runs, overflow records
//! ```
//!
//! An entry is 12 bytes (DDFS, ATC'18, section 4.1): short fingerprint 4, container number 4, and a
//! region word 4: sector 16 bits, sectors 12 bits, 4 bits of the fingerprint that follow the bucket
//! bits. A key's *path* is a string of `base + 36` bits: the top `base` bits of the bucket bits,
//! the next 4 of them, then the short fingerprint. The bucket is the first `log2` bits of the path
//! and an entry holds the last 36 (its *rest*). A file can therefore double without reading whole
//! fingerprints again. Each doubling past `base` takes one bit from the comparison;
//! [`Geometry::is_precise`] says when false positives may exceed 0.01 %.
//!
//! Invariant: no I/O. Every number is little-endian. Unverified bytes cannot become a [`Bucket`],
//! [`IndexHeader`] or [`Tail`]. No input makes a decoder panic.
//!
//! Versions: 1, the first. The file is a cache: any other version is rebuilt, never converted.

mod bucket;
mod header;
mod stamp;
mod tail;
#[cfg(test)]
mod tests;

pub use bucket::{BUCKET_BYTES, BUCKET_ENTRIES, BUCKET_HEADER_BYTES, Bucket};
pub use header::{HEADER_BYTES, HEADER_SLOT_BYTES, IndexHeader, VERSION};
pub use stamp::{CopyStamp, STAMP_BYTES};
pub use tail::{ContainerRun, Tail};

use crate::bytes::checksum;
use crate::preamble::BlobKind;
use units::{Fingerprint, PoolId};

/// Bytes of one entry in a bucket.
pub const ENTRY_BYTES: usize = 12;
/// Bits of the path that an entry keeps.
pub const REST_BITS: u32 = 36;
/// Unit of region offsets and sizes.
pub const SECTOR_BYTES: u64 = 512;
/// Upper limit of a region's sector, exclusive (16 bits, containers up to 32 MiB).
pub const SECTOR_LIMIT: u32 = 1 << 16;
/// Maximum number of sectors in a region (12 bits, 2 MiB less one sector).
pub const SECTORS_MAX: u32 = (1 << 12) - 1;
/// Bits of a region word that contain the place. The rest of the word belongs to the path.
pub const REGION_BITS: u32 = 28;
/// Offset of bucket 0.
pub const BUCKETS_START: u64 = 2 * HEADER_SLOT_BYTES;

const _: () = assert!(size_of::<[u32; 3]>() == ENTRY_BYTES);
const _: () = assert!(BUCKET_HEADER_BYTES + BUCKET_ENTRIES * ENTRY_BYTES == BUCKET_BYTES);
const _: () = assert!(SECTOR_LIMIT as u64 * SECTOR_BYTES == 32 << 20);
const _: () = assert!(REST_BITS + Geometry::BASE_MAX as u32 == 64);

/// First twelve bytes of a fingerprint. The index knows no more of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key {
    /// [`Fingerprint::bucket_bits`].
    pub bits: u64,
    /// [`Fingerprint::short`].
    pub short: u32,
}

impl Key {
    /// Makes the key of a fingerprint.
    pub fn of(fingerprint: &Fingerprint) -> Self {
        Self {
            bits: fingerprint.bucket_bits(),
            short: fingerprint.short(),
        }
    }
}

/// Place of a chunk's region, as in the two words of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct IndexPlace {
    /// Dense local number of the container; [`ContainerRun`]s map it to the container's id.
    pub container: u32,
    /// Sector in the low 16 bits, sectors in the next 12, the top four zero.
    pub region: u32,
}

impl IndexPlace {
    /// Makes a place. `None` when the region does not fit the fields or is empty.
    pub fn new(container: u32, sector: u32, sectors: u32) -> Option<Self> {
        let fits = sector < SECTOR_LIMIT && (1..=SECTORS_MAX).contains(&sectors);
        fits.then_some(Self {
            container,
            region: sector | (sectors << 16),
        })
    }

    /// Returns the first sector of the region in its container.
    pub fn sector(self) -> u32 {
        self.region & (SECTOR_LIMIT - 1)
    }

    /// Returns the number of sectors in the region.
    pub fn sectors(self) -> u32 {
        (self.region >> 16) & SECTORS_MAX
    }
}

/// A key and its place: an overflow record in the tail, or an entry that is pending in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct IndexRecord {
    /// Key of the chunk.
    pub key: Key,
    /// Place of the chunk.
    pub place: IndexPlace,
}

/// Number of buckets, and the number before any growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    base: u8,
    log2: u8,
}

impl Geometry {
    /// Log2 of the smallest file: 64 buckets, 256 KiB.
    pub const BASE_MIN: u8 = 6;
    /// Log2 of the largest first size: 2^28 buckets, 1 TiB.
    pub const BASE_MAX: u8 = 28;
    /// Maximum number of doublings of one file; 16 bits are then left to compare.
    pub const DOUBLINGS_MAX: u8 = 20;
    /// Number of doublings that keep false positives below 0.01 % at 70 % load: 238 / 2^(36 - 14).
    pub const DOUBLINGS_PRECISE: u8 = 14;

    /// Makes a geometry. `None` when it exceeds the limits above.
    pub fn new(base: u8, log2: u8) -> Option<Self> {
        let fits = (Self::BASE_MIN..=Self::BASE_MAX).contains(&base)
            && log2 >= base
            && log2 - base <= Self::DOUBLINGS_MAX;
        fits.then_some(Self { base, log2 })
    }

    /// Makes a first size, clamped to the limits.
    pub fn first(log2: u8) -> Self {
        let log2 = log2.clamp(Self::BASE_MIN, Self::BASE_MAX);
        Self { base: log2, log2 }
    }

    /// Returns a geometry with twice as many buckets; `None` at the limit.
    pub fn doubled(self) -> Option<Self> {
        Self::new(self.base, self.log2 + 1)
    }

    /// Returns log2 of the bucket count when the file was made.
    pub fn base(self) -> u8 {
        self.base
    }

    /// Returns log2 of the bucket count.
    pub fn log2(self) -> u8 {
        self.log2
    }

    /// Returns the number of buckets.
    pub fn buckets(self) -> u64 {
        1 << self.log2
    }

    /// Returns the number of entries that fit when every bucket is full.
    pub fn capacity(self) -> u64 {
        self.buckets() * BUCKET_ENTRIES as u64
    }

    /// Returns true if the entries keep enough bits for false positives below 0.01 %.
    pub fn is_precise(self) -> bool {
        self.log2 - self.base <= Self::DOUBLINGS_PRECISE
    }

    /// Returns the key's path. Ascending paths are ascending buckets, before and after doubling.
    pub fn path(self, key: Key) -> u64 {
        let base = u32::from(self.base);
        ((key.bits >> (64 - base - 4)) << 32) | u64::from(key.short)
    }

    /// Returns the bucket of a path.
    pub fn bucket(self, path: u64) -> u64 {
        path >> (REST_BITS - u32::from(self.log2 - self.base))
    }

    /// Returns the bits of a path that an entry keeps.
    pub fn rest(path: u64) -> u64 {
        path & ((1 << REST_BITS) - 1)
    }

    /// Returns the path of an entry in `bucket` of a file with this geometry.
    pub fn path_of(self, bucket: u64, rest: u64) -> u64 {
        let grown = u32::from(self.log2 - self.base);
        ((bucket >> grown) << REST_BITS) | Self::rest(rest)
    }

    /// Returns the offset of a bucket in the file.
    pub fn bucket_offset(self, bucket: u64) -> u64 {
        BUCKETS_START + bucket * BUCKET_BYTES as u64
    }

    /// Returns the offset of the tail.
    pub fn tail_offset(self) -> u64 {
        self.bucket_offset(self.buckets())
    }
}

/// Seeds the checksums of one file by its pool and geometry, then by the type and place of a page.
#[derive(Clone, Copy, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Makes the seed of a pool's index with this geometry.
    pub fn new(pool: &PoolId, geometry: Geometry) -> Self {
        let shape = (u64::from(geometry.base) << 8) | u64::from(geometry.log2);
        Self(checksum(BlobKind::Index.seed() ^ (shape << 16), &pool.0))
    }

    fn bucket(self, number: u64) -> u64 {
        self.0
            .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn tail(self) -> u64 {
        !self.0
    }
}
