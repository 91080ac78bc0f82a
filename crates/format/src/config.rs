//! Encodes the settings of a pool, which are fixed when it is made, except for the features: an
//! upgrade adds some. Blob `config`, kept twice (see
//! `mirrored`). The store calls this.
//!
//! Invariant: a decoded config was checked; unknown incompatible features are an error.

use crate::bytes::{Fault, Reader, Result, Writer};
use crate::mirrored;
use crate::parity_shape::PARITY_PERCENT_MAX;
use crate::preamble::BlobKind;
use crate::stored::stored;
use units::{PoolId, UnixNanos};

const WHAT: &str = "config";
/// Version of this layout. 1: 2026-11, first.
pub const CONFIG_VERSION: u16 = 1;
/// Feature: readers must know [`Codec::ZstdX86`]. Since 2026-11 every new pool has it; an upgrade
/// adds it to older ones.
pub const FEATURE_INCOMPAT_X86: u64 = 1 << 0;
/// Feature: regions may begin within sectors. Since 2026-11 every new pool has it; an upgrade adds
/// it to older ones. Without it, writers begin regions at sector boundaries.
pub const FEATURE_INCOMPAT_PACKED: u64 = 1 << 1;
/// Feature: snapshots may have version 3 ([`crate::snapshot`]). Since 2026-11 every new pool has
/// it; an upgrade adds it to older ones. Without it, writers leave out what only version 3 holds.
pub const FEATURE_INCOMPAT_OWNERS: u64 = 1 << 2;
/// Incompatible features that this program knows.
pub const FEATURES_INCOMPAT_KNOWN: u64 =
    FEATURE_INCOMPAT_X86 | FEATURE_INCOMPAT_PACKED | FEATURE_INCOMPAT_OWNERS;
/// Feature that a writer must know: the journal may be on another device
/// ([`crate::journal_place`]). Added when it first goes there. A writer that does not know it would
/// take the journal for empty.
pub const FEATURE_RO_COMPAT_JOURNAL_PLACE: u64 = 1 << 0;
/// Feature that a writer must know: the catalog may have persistent reservations of volumes
/// ([`crate::reservations`]). Added with the first of them. A server that does not know them would
/// let initiators write that another one has fenced off.
pub const FEATURE_RO_COMPAT_RESERVATIONS: u64 = 1 << 1;
/// Features that a writer must know, and this program knows.
pub const FEATURES_RO_COMPAT_KNOWN: u64 =
    FEATURE_RO_COMPAT_JOURNAL_PLACE | FEATURE_RO_COMPAT_RESERVATIONS;

stored! {
    /// Encryption of region payloads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Seal: "seal" {
        /// Not encrypted.
        None = 0,
        /// AES-256-GCM, 16 bytes of tag after the bytes.
        Aes256Gcm = 1,
    }
}

stored! {
    /// Compression of region payloads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Codec: "codec" {
        /// Not compressed.
        None = 0,
        /// One zstd frame.
        Zstd = 1,
        /// One LZ4 block; the raw length is in the region header.
        Lz4 = 2,
        /// One zstd frame of the region after the x86 branch filter. Only in pools with
        /// [`FEATURE_INCOMPAT_X86`].
        ZstdX86 = 3,
    }
}

/// Settings on which every writer of a pool must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the pool.
    pub pool: PoolId,
    /// Features that programs may ignore.
    pub features_compat: u64,
    /// Features that a writer must know.
    pub features_ro_compat: u64,
    /// Features that a reader must know.
    pub features_incompat: u64,
    /// Time when the pool was made.
    pub created: UnixNanos,
    /// Encryption of payloads.
    pub seal: Seal,
    /// The master key of a pool without encryption, whose fingerprints are keyed too. Zeroes when
    /// key slots hold it.
    pub clear_master_key: [u8; 32],
    /// Number of the splitter whose boundaries this pool uses (`chunking::split`).
    pub splitter: u8,
    /// Average size of a content-defined chunk, bytes. Chunks have between half and one and a half
    /// times as much.
    pub chunk_bytes_average: u32,
    /// Parity of new containers when the pool was made, percent. The catalog may override it later.
    pub parity_percent: u8,
}

stored! {
    /// The part of a config that never changes. Key slots bind it, with the pool's id. Feature bits
    /// are not part of it, because later versions may add some.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BoundConfig {
        /// Time when the pool was made.
        pub created: UnixNanos,
        /// Encryption of payloads.
        pub seal: Seal,
        /// Number of the splitter.
        pub splitter: u8 => zero 2,
        /// Average size of a content-defined chunk, bytes.
        pub chunk_bytes_average: u32,
    }
}

impl Config {
    /// Returns the part that key slots bind.
    pub fn bound(&self) -> BoundConfig {
        BoundConfig {
            created: self.created,
            seal: self.seal,
            splitter: self.splitter,
            chunk_bytes_average: self.chunk_bytes_average,
        }
    }

    /// Encodes the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(self.features_compat)
            .u64(self.features_ro_compat)
            .u64(self.features_incompat)
            .i64(self.created.0)
            .u8(self.seal as u8)
            .u8(self.splitter)
            .u8(self.parity_percent)
            .u8(0)
            .u32(self.chunk_bytes_average)
            .bytes(&self.clear_master_key);
        mirrored::encode(BlobKind::Config, CONFIG_VERSION, self.pool, 0, &w.0)
    }

    /// Decodes the settings, and reports whether one copy inside the blob is damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, bool)> {
        let copy = mirrored::decode(WHAT, BlobKind::Config, CONFIG_VERSION, bytes)?;
        let mut r = Reader::new(WHAT, &copy.payload);
        let (features_compat, features_ro_compat, features_incompat) =
            (r.u64()?, r.u64()?, r.u64()?);
        let unknown = features_incompat & !FEATURES_INCOMPAT_KNOWN;
        if unknown != 0 {
            return Err(r.error(Fault::Features(unknown)));
        }
        let created = UnixNanos(r.i64()?);
        let seal = Seal::decode(&mut r)?;
        let (splitter, parity_percent, _reserved) = (r.u8()?, r.u8()?, r.u8()?);
        let chunk_bytes_average = r.u32()?;
        if !chunk_bytes_average.is_power_of_two()
            || !(4096..=256 << 10).contains(&chunk_bytes_average)
        {
            return r.invalid("average chunk size");
        }
        let config = Self {
            pool: copy.pool,
            features_compat,
            features_ro_compat,
            features_incompat,
            created,
            seal,
            clear_master_key: r.array()?,
            splitter,
            chunk_bytes_average,
            parity_percent: parity_percent.min(PARITY_PERCENT_MAX),
        };
        r.finish()?;
        Ok((config, copy.damaged))
    }
}
