//! When space was collected last, and what that gave: a cache, kept in two slots.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 8 | since when somebody looks after the pool |
//! | 48 | 8 | when the last run ended, or began if it did not; 0: there was none |
//! | 56 | 1 | how urgent it was: 0 in idle time, 1 little was free, 2 the disk was nearly full |
//! | 57 | 1 | bits: 1 it came to its end, 2 a command began it |
//! | 58 | 2 | zero |
//! | 60 | 12 | runs since one gave something, of each urgency; four bytes each |
//! | 72 | 8 | bytes of containers that it deleted |
//! | 80 | 8 | bytes of containers that it put into the trash |
//! | 88 | 8 | bytes of all containers after the last run that came to its end |
//! | 96 | 8 | the newest commit that has brought something into the trash at a time that was not here yet; 0: none has |
//! | 104 | 8 | when a run has seen that first, of all that came by then |
//! | 112 | 16 each | 28 samples of the pool's size: when, 8, and bytes of all containers then, 8; ascending; zeroes behind |
//! | 560 | 8 | checksum of all before |
//!
//! Invariant: slots are written in turn, so a torn one leaves its predecessor. Called by maintenance.

use crate::bytes::Result;
use crate::preamble::Kind;
use crate::record::Frame;
use units::{Generation, PoolId, UnixNanos};

/// Version that this program reads and writes. 2: samples of the size.
pub const VERSION: u16 = 2;
/// Size of a record, bytes.
pub const COLLECT_BYTES: u64 = 568;
/// Samples of the pool's size.
pub const SAMPLES: usize = 28;

/// The size of a pool at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeSample {
    /// When; 0: no sample.
    pub at: UnixNanos,
    /// Bytes of all containers.
    pub stored_bytes: u64,
}

const FRAME: Frame = Frame {
    what: "record of collections",
    kind: Kind::Collect,
    version: VERSION,
};

const IS_COMPLETE: u8 = 1;
const BY_COMMAND: u8 = 2;
/// Kinds of urgency.
pub const URGENCIES: usize = 3;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// Since when somebody looks after the pool.
    pub since: UnixNanos,
    /// When the last run ended, or began if it did not; 0: there was none.
    pub ended: UnixNanos,
    /// How urgent it was, less than [`URGENCIES`].
    pub urgency: u8,
    /// It came to its end.
    pub is_complete: bool,
    /// A command began it.
    pub by_command: bool,
    /// Runs since one gave something, of each urgency.
    pub in_vain: [u32; URGENCIES],
    /// Bytes of containers that it deleted.
    pub deleted_bytes: u64,
    /// ... and that it put into the trash.
    pub discarded_bytes: u64,
    /// Of all containers, after the last run that came to its end.
    pub stored_bytes: u64,
    /// The newest commit that has brought something into the trash at a time that was not here yet; 0: none has.
    pub ahead_by: Generation,
    /// When a run has seen that first.
    pub ahead_seen: UnixNanos,
    /// About one a day, oldest first; behind them, none.
    pub samples: [SizeSample; SAMPLES],
}

impl CollectRecord {
    /// The bytes of this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits = bit(self.is_complete, IS_COMPLETE) | bit(self.by_command, BY_COMMAND);
        FRAME.seal(pool, |w| {
            w.u64(self.sequence)
                .u64(self.since.0 as u64)
                .u64(self.ended.0 as u64)
                .u8(self.urgency)
                .u8(bits)
                .bytes(&[0; 2]);
            for count in self.in_vain {
                w.u32(count);
            }
            w.u64(self.deleted_bytes)
                .u64(self.discarded_bytes)
                .u64(self.stored_bytes)
                .u64(self.ahead_by.0)
                .u64(self.ahead_seen.0 as u64);
            for sample in &self.samples {
                w.u64(sample.at.0 as u64).u64(sample.stored_bytes);
            }
        })
    }

    /// Verifies the bytes of a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let (sequence, since, ended) = (r.u64()?, r.i64()?, r.i64()?);
        let (urgency, bits) = (r.u8()?, r.u8()?);
        if usize::from(urgency) >= URGENCIES || bits & !(IS_COMPLETE | BY_COMMAND) != 0 {
            return r.invalid("urgency or bits");
        }
        if r.array::<2>()? != [0; 2] {
            return r.invalid("field");
        }
        let mut record = Self {
            sequence,
            since: UnixNanos(since),
            ended: UnixNanos(ended),
            urgency,
            is_complete: bits & IS_COMPLETE != 0,
            by_command: bits & BY_COMMAND != 0,
            in_vain: [r.u32()?, r.u32()?, r.u32()?],
            deleted_bytes: r.u64()?,
            discarded_bytes: r.u64()?,
            stored_bytes: r.u64()?,
            ahead_by: Generation(r.u64()?),
            ahead_seen: UnixNanos(r.i64()?),
            samples: Default::default(),
        };
        for sample in &mut record.samples {
            *sample = SizeSample {
                at: UnixNanos(r.i64()?),
                stored_bytes: r.u64()?,
            };
        }
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
            ended: UnixNanos(1 << 60),
            urgency: 2,
            is_complete: true,
            in_vain: [0, 1, u32::MAX],
            deleted_bytes: 1 << 40,
            discarded_bytes: 7,
            stored_bytes: u64::MAX,
            ahead_by: Generation(3),
            ahead_seen: UnixNanos(77),
            samples: samples(&[1, 5]),
            ..CollectRecord::default()
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
