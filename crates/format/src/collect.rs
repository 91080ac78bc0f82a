//! Encodes the record of garbage collections: when the last one ran, and what it freed. It is a
//! cache, kept in two slots. Maintenance calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 8 | time since which the pool is maintained |
//! | 48 | 8 | end of the last run, or its start if it did not end; 0: there was none |
//! | 56 | 1 | its urgency: 0 idle time, 1 little free space, 2 disk nearly full |
//! | 57 | 1 | bits: 1 it completed, 2 a command started it |
//! | 58 | 2 | zero |
//! | 60 | 12 | runs since one freed something, for each urgency; four bytes each |
//! | 72 | 8 | bytes of containers that it deleted |
//! | 80 | 8 | bytes of containers that it put into the trash |
//! | 88 | 8 | bytes of all containers after the last completed run |
//! | 96 | 8 | newest commit that put something into the trash at a future time; 0: none |
//! | 104 | 8 | time when a run first saw that, of all commits up to it |
//! | 112 | 16 each | 28 samples, ascending, zeroes behind: time 8, bytes of all containers 8 |
//! | 560 | 8 | checksum of everything before |
//!
//! A commit is at a future time if the clock was ahead when it was made.
//!
//! Invariant: slots are written alternately, so a torn one leaves its predecessor.

use crate::bytes::Result;
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::{Stored, stored, take_zeroes};
use units::{Generation, PoolId, UnixNanos};

/// Version that this program reads and writes. Version 2 added samples of the size.
pub const VERSION: u16 = 2;
/// Size of a record, bytes.
pub const COLLECT_BYTES: u64 = 568;
/// Number of samples of the pool's size.
pub const SAMPLES: usize = 28;

stored! {
    /// Size of a pool at one time.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SizeSample {
        /// Time of the sample; 0: no sample.
        pub at: UnixNanos,
        /// Bytes of all containers.
        pub stored_bytes: u64,
    }
}

const FRAME: Frame = Frame {
    what: "record of collections",
    kind: BlobKind::Collect,
    version: VERSION,
};

const IS_COMPLETE: u8 = 1;
const BY_COMMAND: u8 = 2;
/// Number of kinds of urgency.
pub const URGENCIES: usize = 3;

stored! {
    /// Urgency of a run, the lowest first.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    pub enum Urgency: "urgency" {
        /// Runs in idle time, and at its I/O floor.
        #[default]
        WhenIdle = 0,
        /// Free space is low: the run gets as much of the device as maintenance may have.
        Low = 1,
        /// Writers are about to wait.
        Full = 2,
    }
}

/// Cause and result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectNote {
    /// End of the run, or its start if it has not ended; 0: there was none.
    pub at: UnixNanos,
    /// Urgency at its start.
    pub urgency: Urgency,
    /// A command started it.
    pub by_command: bool,
    /// It completed.
    pub is_complete: bool,
    /// Bytes of containers that it deleted.
    pub deleted_bytes: u64,
    /// Bytes of containers that it put into the trash.
    pub discarded_bytes: u64,
    /// Bytes of all containers at that time; in a record, after the last completed run.
    pub stored_bytes: u64,
    /// Newest commit that put something into the trash at a future time. Stored as 0: none.
    pub ahead_by: Option<Generation>,
}

/// The record of garbage collections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// Time since which the pool is maintained.
    pub since: UnixNanos,
    /// The last run.
    pub last: CollectNote,
    /// Runs since one freed something, for each urgency.
    pub without_effect: [u32; URGENCIES],
    /// Time when a run first saw `ahead_by` of the last run.
    pub ahead_seen: UnixNanos,
    /// Samples, about one a day, oldest first; unused ones at the end are zero.
    pub samples: [SizeSample; SAMPLES],
}

impl CollectRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let last = &self.last;
        let bits = bit(last.is_complete, IS_COMPLETE) | bit(last.by_command, BY_COMMAND);
        FRAME.seal(pool, |w| {
            w.u64(self.sequence)
                .i64(self.since.0)
                .i64(last.at.0)
                .u8(last.urgency as u8)
                .u8(bits)
                .bytes(&[0; 2]);
            self.without_effect.put(w);
            w.u64(last.deleted_bytes)
                .u64(last.discarded_bytes)
                .u64(last.stored_bytes)
                .u64(last.ahead_by.unwrap_or_default().0)
                .i64(self.ahead_seen.0);
            self.samples.put(w);
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let (sequence, since, at) = (r.u64()?, r.i64()?, r.i64()?);
        let urgency = Urgency::decode(&mut r)?;
        let bits = r.u8()?;
        if bits & !(IS_COMPLETE | BY_COMMAND) != 0 {
            return r.invalid("bits");
        }
        take_zeroes::<2>(&mut r)?;
        let without_effect = Stored::take(&mut r)?;
        let last = CollectNote {
            at: UnixNanos(at),
            urgency,
            by_command: bits & BY_COMMAND != 0,
            is_complete: bits & IS_COMPLETE != 0,
            deleted_bytes: r.u64()?,
            discarded_bytes: r.u64()?,
            stored_bytes: r.u64()?,
            ahead_by: Some(Generation(r.u64()?)).filter(|by| *by != Generation::default()),
        };
        let record = Self {
            sequence,
            since: UnixNanos(since),
            last,
            without_effect,
            ahead_seen: UnixNanos(r.i64()?),
            samples: Stored::take(&mut r)?,
        };
        let samples = record.samples.iter().take_while(|s| s.at != UnixNanos(0));
        let count = samples.clone().count();
        let rest = record.samples.get(count..).unwrap_or_default();
        if !samples.is_sorted_by(|a, b| a.at < b.at)
            || rest.iter().any(|s| *s != SizeSample::default())
        {
            return r.invalid("samples");
        }
        r.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::checksum;
    use crate::record::is_read_whole_only;

    fn samples(times: &[i64]) -> [SizeSample; SAMPLES] {
        let mut samples = [SizeSample::default(); SAMPLES];
        for (sample, at) in samples.iter_mut().zip(times) {
            *sample = SizeSample {
                at: UnixNanos(*at),
                stored_bytes: 9,
            };
        }
        samples
    }

    #[test]
    fn a_record_comes_back_and_no_other_pool_believes_it() {
        let pool = PoolId([3; 16]);
        let record = CollectRecord {
            sequence: 9,
            since: UnixNanos(5),
            last: CollectNote {
                at: UnixNanos(1 << 60),
                urgency: Urgency::Full,
                by_command: false,
                is_complete: true,
                deleted_bytes: 1 << 40,
                discarded_bytes: 7,
                stored_bytes: u64::MAX,
                ahead_by: Some(Generation(3)),
            },
            without_effect: [0, 1, u32::MAX],
            ahead_seen: UnixNanos(77),
            samples: samples(&[1, 5]),
        };
        let bytes = record.encode(pool);
        assert_eq!(bytes.len() as u64, COLLECT_BYTES);
        assert_eq!(
            checksum(0, &bytes),
            0xdb1a90ad03c30192,
            "what older programs wrote"
        );
        assert_eq!(CollectRecord::decode(&bytes, pool), Ok(record));
        is_read_whole_only(&bytes, CollectRecord::decode);
        for disordered in [&[5, 1][..], &[1, 1], &[1, 0, 5]] {
            let record = CollectRecord {
                samples: samples(disordered),
                ..record
            };
            assert!(CollectRecord::decode(&record.encode(pool), pool).is_err());
        }
    }
}
