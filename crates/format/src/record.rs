//! Frames the records of caches in small files: preamble before, checksum of everything behind. The
//! records' modules call this.
//!
//! Invariant: an opened record was sealed for this pool, with this kind and version, and is whole.

use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use crate::stored::Stored;
use units::PoolId;

/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 8;

/// A kind of records.
pub(crate) struct Frame {
    /// Name in errors.
    pub what: &'static str,
    pub kind: BlobKind,
    /// Version that this program reads and writes.
    pub version: u16,
}

impl Frame {
    /// Encodes what `fields` writes between preamble and checksum.
    pub fn seal(&self, pool: PoolId, fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(self.kind, self.version, pool, &mut w);
        fields(&mut w);
        let sum = checksum(self.kind.seed(), &w.0);
        w.u64(sum);
        w.0
    }

    /// Verifies a record of this pool. The returned reader is at its fields.
    pub fn open<'b>(&self, bytes: &'b [u8], pool: PoolId) -> Result<Reader<'b>> {
        let preamble = Preamble::decode(bytes)?.expect(self.what, self.kind, self.version)?;
        if preamble.pool != pool {
            return Err(FormatError::new(self.what, Fault::Misplaced));
        }
        let mut r = Reader::new(self.what, bytes);
        let summed = r.take(bytes.len().saturating_sub(CHECKSUM_BYTES))?;
        verify(self.what, self.kind.seed(), summed, r.u64()?)?;
        let mut r = Reader::new(self.what, summed);
        r.take(PREAMBLE_BYTES)?;
        Ok(r)
    }

    /// Encodes a record.
    pub fn encode(&self, pool: PoolId, record: &impl Stored) -> Vec<u8> {
        self.seal(pool, |w| record.put(w))
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode<R: Stored>(&self, bytes: &[u8], pool: PoolId) -> Result<R> {
        let mut r = self.open(bytes, pool)?;
        let record = R::take(&mut r)?;
        r.finish()?;
        Ok(record)
    }

    /// Makes an error about a field with an impossible value.
    pub fn invalid<T>(&self, field: &'static str) -> Result<T> {
        Err(FormatError::new(self.what, Fault::Invalid(field)))
    }
}

/// Tests a record of the pool `[3; 16]`: another pool, cut ends and flipped bits must be errors.
#[cfg(test)]
pub(crate) fn is_read_whole_only<R: std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8], PoolId) -> Result<R>,
) {
    let other = decode(bytes, PoolId([4; 16])).expect_err("of another pool");
    assert_eq!(other.fault, Fault::Misplaced);
    let pool = PoolId([3; 16]);
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut], pool).is_err(), "{cut}");
    }
    for at in 0..bytes.len() {
        let mut torn = bytes.to_vec();
        torn[at] ^= 0x10;
        assert!(decode(&torn, pool).is_err(), "{at}");
    }
}
