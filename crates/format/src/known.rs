//! Encodes a user's record of a pool on their machine: a file in the cache directory, not in the
//! pool. The program calls this.
//!
//! Invariant: the holder of the pool cannot write it. It therefore detects changes by the holder:
//! another pool at the place, a pool that is no longer encrypted, an older state. A record that
//! cannot be decoded counts as missing.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | highest generation seen |
//! | 40 | 8 | time of that |
//! | 48 | 1 | seal, as in the config |
//! | 49 | 3 | zero |
//! | 52 | 4 | length of the place |
//! | 56 | L | the place: the pool's directory |
//! | 56 + L | 8 | XXH3-64 of everything before |

use crate::bytes::Result;
use crate::config::Seal;
use crate::preamble::{BlobKind, Preamble};
use crate::record::Frame;
use crate::stored::take_zeroes;
use units::{Generation, PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Largest file, bytes. It bounds the allocation of a reader.
pub const KNOWN_BYTES_MAX: u64 = 8 << 10;

const FRAME: Frame = Frame {
    what: "memory of a pool",
    kind: BlobKind::Known,
    version: VERSION,
};

/// The record of a known pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPool {
    /// Id of the pool.
    pub pool: PoolId,
    /// Highest generation seen.
    pub generation: Generation,
    /// Time of that.
    pub seen: UnixNanos,
    /// Encryption of the pool.
    pub seal: Seal,
    /// The pool's directory.
    pub place: Vec<u8>,
}

impl KnownPool {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        FRAME.seal(self.pool, |w| {
            w.u64(self.generation.0)
                .i64(self.seen.0)
                .u8(self.seal as u8)
                .bytes(&[0; 3])
                .u32(self.place.len() as u32)
                .bytes(&self.place);
        })
    }

    /// Decodes the file.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let pool = Preamble::decode(bytes)?.pool;
        let mut r = FRAME.open(bytes, pool)?;
        let (generation, seen) = (Generation(r.u64()?), UnixNanos(r.i64()?));
        let seal = Seal::decode(&mut r)?;
        take_zeroes::<3>(&mut r)?;
        let len = r.u32()? as usize;
        let known = Self {
            pool,
            generation,
            seen,
            seal,
            place: r.take(len)?.to_vec(),
        };
        if bytes.len() as u64 > KNOWN_BYTES_MAX {
            return r.invalid("length");
        }
        r.finish()?;
        Ok(known)
    }
}
