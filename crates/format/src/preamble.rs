//! The first 32 bytes of every blob: what it is, which version, of which pool. Readable by every
//! version of the program, past and future.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `89 51 55 49 4E 54 45 54` |
//! | 8 | 2 | kind |
//! | 10 | 2 | version of the layout that follows |
//! | 12 | 4 | reserved, 0 |
//! | 16 | 16 | pool id |

use crate::bytes::{Fault, FormatError, Reader, Result, Writer};
use units::PoolId;

/// `\x89QUINTET` cut to eight bytes.
pub const MAGIC: [u8; 8] = *b"\x89QUINTET".first_chunk().expect("eight bytes");

/// What a blob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
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
    /// How far a scrub has come.
    Scrub = 7,
    /// Which chunks defragmentation has moved.
    Moved = 8,
    /// Which ranges were read of late.
    Trace = 9,
    /// How far a defragmentation has come.
    Defrag = 10,
    /// When space was collected last.
    Collect = 11,
    /// How far the journal is known to reach.
    JournalReach = 12,
    /// What was found damaged and no commit says yet.
    DamageHints = 24,
    /// What a process that reads holds.
    ReaderHold = 15,
    /// What a user's machine remembers of a pool. From 64 on: files that are in no pool.
    Known = 64,
}

impl Kind {
    /// Seed of the checksums of this kind.
    pub fn seed(self) -> u64 {
        0x5155_494e_0000_0000 | self as u64
    }
}

/// Size of the preamble, bytes.
pub const PREAMBLE_BYTES: usize = 32;

/// What any version can say about a blob.
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
    pub fn encode(kind: Kind, version: u16, pool: PoolId, to: &mut Writer) {
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
    pub fn expect(self, what: &'static str, kind: Kind, version: u16) -> Result<Self> {
        if self.kind != kind as u16 {
            return Err(FormatError::new(what, Fault::BadMagic));
        }
        if self.version != version {
            return Err(FormatError::new(what, Fault::Version(self.version)));
        }
        Ok(self)
    }
}
