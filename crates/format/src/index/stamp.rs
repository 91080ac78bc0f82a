//! Encodes the stamp of a copy of the index's buckets on a faster device: which state of the file
//! it equals, and how far. The store's index calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 512 | the index's clean header, as in the file |
//! | 512 | 8 | number of buckets that were copied, from bucket 0 on |
//! | 520 | 8 | checksum of everything before |
//!
//! Buckets lie where they lie in the file.
//!
//! Invariant: a copy counts only while its stamp names exactly the header that the file has. Zeroes
//! are no stamp.

use super::IndexHeader;
use super::header::HEADER_BYTES;
use crate::bytes::{Reader, Result, Writer, checksum, verify};
use crate::preamble::BlobKind;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = HEADER_BYTES + 16;

const WHAT: &str = "stamp of an index copy";
const SUMMED_BYTES: usize = STAMP_BYTES - 8;
/// Distinguishes the checksum from that of a header.
const SALT: u64 = 0x7374_616d_7000_0000;

/// A verified (or new) stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStamp {
    /// Header of the file that was copied.
    pub header: IndexHeader,
    /// Number of buckets that the copy has, from bucket 0 on.
    pub buckets: u64,
}

impl CopyStamp {
    /// Encodes this stamp.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.header.encode()).u64(self.buckets);
        let sum = checksum(BlobKind::Index.seed() ^ SALT, &w.0);
        w.u64(sum);
        w.0
    }

    /// Verifies and decodes the bytes of a stamp.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        let summed = r.take(SUMMED_BYTES)?;
        verify(WHAT, BlobKind::Index.seed() ^ SALT, summed, r.u64()?)?;
        r.finish()?;
        let mut r = Reader::new(WHAT, summed);
        let header = IndexHeader::decode(r.take(HEADER_BYTES)?)?;
        let buckets = r.u64()?;
        if !header.clean || buckets > header.geometry.buckets() {
            return r.invalid("number of buckets");
        }
        Ok(Self { header, buckets })
    }
}
