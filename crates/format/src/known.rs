//! What a user's machine remembers of a pool: a file below his cache directory, not in the pool.
//!
//! Invariant: the pool's holder cannot write it, so it tells what he changed: another pool in the
//! place, one that is not encrypted any more, an older state. Whatever cannot be decoded counts as
//! not there. Called by the program.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | highest generation seen |
//! | 40 | 8 | when that was |
//! | 48 | 1 | seal, as in the config |
//! | 49 | 3 | zero |
//! | 52 | 4 | length of the place |
//! | 56 | L | the place: the pool's directory |
//! | 56 + L | 8 | XXH3-64 of everything before |

use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use crate::config::Seal;
use crate::preamble::{Kind, PREAMBLE_BYTES, Preamble};
use units::{Generation, PoolId, UnixNanos};

const WHAT: &str = "memory of a pool";
/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Largest file; bounds what a reader allocates.
pub const KNOWN_BYTES_MAX: u64 = 8 << 10;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPool {
    /// Which pool it was.
    pub pool: PoolId,
    /// Highest generation seen.
    pub generation: Generation,
    /// When that was.
    pub seen: UnixNanos,
    /// How it was sealed.
    pub seal: Seal,
    /// The pool's directory.
    pub place: Vec<u8>,
}

impl KnownPool {
    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(Kind::Known, VERSION, self.pool, &mut w);
        w.u64(self.generation.0)
            .i64(self.seen.0)
            .u8(self.seal as u8)
            .bytes(&[0; 3])
            .u32(self.place.len() as u32)
            .bytes(&self.place);
        let sum = checksum(Kind::Known.seed(), &w.0);
        w.u64(sum);
        w.0
    }

    /// From the file.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let preamble = Preamble::decode(bytes)?.expect(WHAT, Kind::Known, VERSION)?;
        let covered = bytes.len().saturating_sub(8);
        let mut whole = Reader::new(WHAT, bytes);
        let covered = whole.take(covered)?;
        verify(WHAT, Kind::Known.seed(), covered, whole.u64()?)?;
        let mut r = Reader::new(WHAT, covered);
        r.take(PREAMBLE_BYTES)?;
        let (generation, seen) = (Generation(r.u64()?), UnixNanos(r.i64()?));
        let Some(seal) = Seal::from_u8(r.u8()?) else {
            return r.invalid("seal");
        };
        if r.array::<3>()? != [0; 3] {
            return r.invalid("reserved");
        }
        let len = r.u32()? as usize;
        let known = Self {
            pool: preamble.pool,
            generation,
            seen,
            seal,
            place: r.take(len)?.to_vec(),
        };
        if bytes.len() as u64 > KNOWN_BYTES_MAX {
            return Err(FormatError::new(WHAT, Fault::Invalid("length")));
        }
        r.finish()?;
        Ok(known)
    }
}
