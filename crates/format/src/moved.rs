//! Encodes an approximate set of the chunks that defragmentation has copied forward. It is a cache
//! in one file. The store calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | number below which all containers of defragmentation are included |
//! | 40 | 8 | chunks that were entered |
//! | 48 | 8 | words that follow |
//! | 56 | 8 each | the words: blocks of eight, a block for a chunk, six bits each |
//! | ... | 8 | checksum of everything before |
//!
//! Invariant: an entered chunk is always found. Another one may be found too.

use crate::bytes::Result;
use crate::preamble::Kind;
use crate::record::Frame;
use units::PoolId;

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Words of a block. All bits of a chunk lie in one block.
pub const BLOCK_WORDS: usize = 8;
/// Maximum number of blocks: 32 MiB.
pub const BLOCKS_MAX: usize = 1 << 19;
/// Largest file that is read, bytes.
pub const MOVED_BYTES_MAX: u64 = (64 + BLOCKS_MAX * BLOCK_WORDS * 8) as u64;

const FRAME: Frame = Frame {
    what: "moved chunks",
    kind: Kind::Moved,
    version: VERSION,
};

/// The set of moved chunks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MovedRecord {
    /// Sequence number below which all containers are included.
    pub sequence: u64,
    /// Number of chunks that were entered.
    pub entries: u64,
    /// Blocks of [`BLOCK_WORDS`] words. Their number is 0 or a power of two.
    pub words: Vec<u64>,
}

impl MovedRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.seal(pool, |w| {
            w.u64(self.sequence).u64(self.entries);
            w.u64(self.words.len() as u64);
            self.words.iter().for_each(|word| {
                w.u64(*word);
            });
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let (sequence, entries, count) = (r.u64()?, r.u64()?, r.u64()?);
        let rest = r.rest();
        let words: Vec<u64> = rest
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok().map(u64::from_le_bytes))
            .collect();
        let blocks = words.len() / BLOCK_WORDS;
        let is_whole = rest.len().is_multiple_of(8) && words.len() as u64 == count;
        let is_blocks =
            words.len().is_multiple_of(BLOCK_WORDS) && (blocks == 0 || blocks.is_power_of_two());
        if !is_whole || !is_blocks || blocks > BLOCKS_MAX {
            return r.invalid("length");
        }
        Ok(Self {
            sequence,
            entries,
            words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Fault, checksum};

    #[test]
    fn a_record_comes_back_and_no_torn_one_does() {
        let pool = PoolId([3; 16]);
        let record = MovedRecord {
            sequence: 9,
            entries: 2,
            words: (0..16).collect(),
        };
        let bytes = record.encode(pool);
        assert_eq!(bytes.len(), 56 + 16 * 8 + 8);
        assert_eq!(
            checksum(0, &bytes),
            0x618b42539047547d,
            "what older programs wrote"
        );
        assert_eq!(MovedRecord::decode(&bytes, pool), Ok(record));
        let other = MovedRecord::decode(&bytes, PoolId([4; 16]));
        assert_eq!(other.unwrap_err().fault, Fault::Misplaced);
        for cut in 0..bytes.len() {
            assert!(MovedRecord::decode(&bytes[..cut], pool).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 0x10;
            assert!(MovedRecord::decode(&torn, pool).is_err(), "{at}");
        }
        for words in [1, 9, 24] {
            let record = MovedRecord {
                words: vec![0; words],
                ..MovedRecord::default()
            };
            assert!(MovedRecord::decode(&record.encode(pool), pool).is_err());
        }
    }
}
