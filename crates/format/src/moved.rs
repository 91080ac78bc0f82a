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
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::stored;
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
    kind: BlobKind::Moved,
    version: VERSION,
};

stored! {
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
}

impl MovedRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.encode(pool, self)
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let record: Self = FRAME.decode(bytes, pool)?;
        let blocks = record.words.len() / BLOCK_WORDS;
        let is_blocks = record.words.len().is_multiple_of(BLOCK_WORDS)
            && (blocks == 0 || blocks.is_power_of_two());
        if !is_blocks || blocks > BLOCKS_MAX {
            return FRAME.invalid("length");
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::checksum;
    use crate::record::is_read_whole_only;

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
        is_read_whole_only(&bytes, MovedRecord::decode);
        for words in [1, 9, 24] {
            let record = MovedRecord {
                words: vec![0; words],
                ..MovedRecord::default()
            };
            assert!(MovedRecord::decode(&record.encode(pool), pool).is_err());
        }
    }
}
