//! Encodes the first 32 bytes of every blob: its kind, its version, and its pool. Every version of
//! the program, past and future, can read them. All modules for blobs call this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `89 51 55 49 4E 54 45 54` |
//! | 8 | 2 | kind |
//! | 10 | 2 | version of the layout that follows |
//! | 12 | 4 | reserved, 0 |
//! | 16 | 16 | pool id |
//!
//! Invariant: this layout never changes.

use crate::bytes::{Fault, FormatError, Reader, Result, Writer};
use units::PoolId;

/// `\x89QUINTET` cut to eight bytes.
pub const MAGIC: [u8; 8] = *b"\x89QUINTET".first_chunk().expect("eight bytes");

/// Kind of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BlobKind {
    /// Settings of a pool.
    Config = 1,
    /// One wrapped copy of the master key.
    KeySlot = 2,
    /// One generation of the root record.
    Root = 3,
    /// A container.
    Container = 4,
    /// The fingerprint index.
    Index = 5,
    /// A slot of the journal.
    Journal = 6,
    /// Progress of a scrub.
    Scrub = 7,
    /// Chunks that defragmentation has moved.
    Moved = 8,
    /// Ranges that were read of late.
    Trace = 9,
    /// Progress of a defragmentation.
    Defrag = 10,
    /// Record of garbage collections.
    Collect = 11,
    /// Known reach of the journal.
    JournalReach = 12,
    /// Checksums of the sectors of a container, beside its parity.
    Parity = 13,
    /// Damage that was found and is not in a commit yet.
    DamageHints = 24,
    /// Hold of a reading process.
    ReaderHold = 15,
    /// Streams whose last run stored nothing.
    FailedStreams = 16,
    /// Where the journal is.
    JournalPlace = 17,
    /// A cache block of the fast tier.
    TierBlock = 40,
    /// A user's record of a pool. Kinds from 64 on are files outside of pools.
    Known = 64,
    /// Ranges of files of a host that programs read and wrote.
    HostTrace = 65,
    /// Progress of a scrub of files of a host.
    HostScrub = 66,
}

impl BlobKind {
    /// Returns the seed of checksums for this kind.
    pub fn seed(self) -> u64 {
        0x5155_494e_0000_0000 | self as u64
    }
}

/// Size of the preamble, bytes.
pub const PREAMBLE_BYTES: usize = 32;

/// Facts that any version can tell about a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Raw kind number.
    pub kind: u16,
    /// Version of the layout that follows.
    pub version: u16,
    /// The pool it belongs to.
    pub pool: PoolId,
}

impl Preamble {
    /// Appends the 32 bytes.
    pub fn encode(kind: BlobKind, version: u16, pool: PoolId, to: &mut Writer) {
        to.bytes(&MAGIC)
            .u16(kind as u16)
            .u16(version)
            .u32(0)
            .bytes(&pool.0);
    }

    /// Reads the 32 bytes, of any kind and version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("preamble", bytes);
        if r.array::<8>()? != MAGIC {
            return Err(r.error(Fault::BadMagic));
        }
        let (kind, version, _reserved) = (r.u16()?, r.u16()?, r.u32()?);
        Ok(Self {
            kind,
            version,
            pool: PoolId(r.array()?),
        })
    }

    /// Fails unless kind and version are the expected ones.
    pub fn expect(self, what: &'static str, kind: BlobKind, version: u16) -> Result<Self> {
        if self.kind != kind as u16 {
            return Err(FormatError::new(what, Fault::BadMagic));
        }
        if self.version != version {
            return Err(FormatError::new(what, Fault::Version(self.version)));
        }
        Ok(self)
    }
}
