//! Encodes the ranges of volumes and served snapshots that were read of late, and how often. It is
//! a cache, kept in two slots. The store calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 8 | requests that were seen |
//! | 48 | 8 | entries that follow |
//! | 56 | 32 each | object, first byte, first byte after it, weight: eight bytes each |
//! | ... | 8 | checksum of everything before |
//!
//! The first eight bytes of its volume's or snapshot's id name an object.
//!
//! Invariant: slots are written alternately, so a torn one leaves its predecessor. Without any,
//! defragmentation knows no heat.

use crate::bytes::Result;
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::stored;
use units::PoolId;

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Maximum number of entries in a record.
pub const ENTRIES_MAX: usize = 1 << 18;
/// Largest record that is read, bytes.
pub const TRACE_BYTES_MAX: u64 = (64 + ENTRIES_MAX * 32) as u64;

const FRAME: Frame = Frame {
    what: "trace",
    kind: BlobKind::Trace,
    version: VERSION,
};

stored! {
    /// A range of an object, and its requests.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TraceEntry {
        /// Key of the object.
        pub object: u64,
        /// First byte.
        pub start: u64,
        /// First byte after it.
        pub end: u64,
        /// Weight of the requests, as in `fragpicker`.
        pub weight: u64,
    }
}

stored! {
    /// The record of a trace.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct TraceRecord {
        /// Grows by one with each record.
        pub sequence: u64,
        /// Number of requests that were seen.
        pub requests: u64,
        /// Ranges.
        pub entries: Vec<TraceEntry>,
    }
}

impl TraceRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.encode(pool, self)
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let record: Self = FRAME.decode(bytes, pool)?;
        if record.entries.len() > ENTRIES_MAX {
            return FRAME.invalid("length");
        }
        if record.entries.iter().any(|entry| entry.start >= entry.end) {
            return FRAME.invalid("range");
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
        let entry = |n: u64| TraceEntry {
            object: n,
            start: n * 4096,
            end: (n + 1) * 4096,
            weight: 256,
        };
        let record = TraceRecord {
            sequence: 9,
            requests: 7,
            entries: (0..5).map(entry).collect(),
        };
        let bytes = record.encode(pool);
        assert_eq!(bytes.len(), 56 + 5 * 32 + 8);
        assert_eq!(
            checksum(0, &bytes),
            0x74c82e9f4688638c,
            "what older programs wrote"
        );
        assert_eq!(TraceRecord::decode(&bytes, pool), Ok(record));
        is_read_whole_only(&bytes, TraceRecord::decode);
        let empty = TraceRecord {
            entries: vec![TraceEntry::default()],
            ..TraceRecord::default()
        };
        assert!(TraceRecord::decode(&empty.encode(pool), pool).is_err());
    }
}
