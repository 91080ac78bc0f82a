//! Encodes the progress of a scrub, and the time of the last full verification. It is a cache, kept
//! in two slots. Maintenance calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 1 | 0 = at rest, 1 = running, 2 = paused |
//! | 41 | 7 | zero |
//! | 48 | 48 | the current pass: [`Pass`] |
//! | 96 | 48 | the last pass that ended: [`Pass`] |
//! | 144 | 8 | length of the progress |
//! | 152 | ... | progress of the pass, in the form of `duet` |
//! | ... | 8 | checksum of everything before |
//!
//! A pass: start, end (0 while it has not ended), containers verified, stored bytes read, stored
//! bytes that readers had verified, damaged places; eight bytes each.
//!
//! Invariant: slots are written alternately, so a torn one leaves its predecessor.

use crate::bytes::Result;
use crate::phase::TaskPhase;
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::stored;
use units::{PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Largest record that is read, bytes. It suffices for the sparsest progress that fits in memory.
pub const SCRUB_BYTES_MAX: u64 = 64 << 20;

const FRAME: Frame = Frame {
    what: "scrub record",
    kind: BlobKind::Scrub,
    version: VERSION,
};

stored! {
    /// A pass over all containers, in numbers.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Pass {
        /// Start; 0: there was none.
        pub began: UnixNanos,
        /// End; 0 while it has not ended.
        pub ended: UnixNanos,
        /// Number of containers verified.
        pub containers: u64,
        /// Stored bytes that the pass read.
        pub read_bytes: u64,
        /// Stored bytes that readers had verified meanwhile; the pass did not read them again.
        pub cached_bytes: u64,
        /// Number of places found damaged, and of containers that the device did not return.
        pub damaged: u64,
    }
}

stored! {
    /// The record of a scrub.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct ScrubRecord {
        /// Grows by one with each record.
        pub sequence: u64,
        /// Phase of the scrub.
        pub phase: TaskPhase => zero 7,
        /// The current pass.
        pub pass: Pass,
        /// The last pass that ended.
        pub last: Pass,
        /// Progress of the pass; empty if it has not begun.
        pub progress: Vec<u8>,
    }
}

impl ScrubRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.encode(pool, self)
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        FRAME.decode(bytes, pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::checksum;
    use crate::record::is_read_whole_only;

    #[test]
    fn a_record_comes_back_and_no_other_pool_believes_it() {
        let pool = PoolId([3; 16]);
        let record = ScrubRecord {
            sequence: 9,
            phase: TaskPhase::Paused,
            pass: Pass {
                began: UnixNanos(5),
                read_bytes: 1 << 40,
                ..Pass::default()
            },
            last: Pass::default(),
            progress: vec![1, 2, 3],
        };
        let bytes = record.encode(pool);
        assert_eq!(bytes.len(), 152 + 3 + 8);
        assert_eq!(
            checksum(0, &bytes),
            0x5c81ee62436ad784,
            "what older programs wrote"
        );
        assert_eq!(ScrubRecord::decode(&bytes, pool), Ok(record));
        is_read_whole_only(&bytes, ScrubRecord::decode);
    }
}
