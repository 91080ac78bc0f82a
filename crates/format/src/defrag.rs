//! Encodes the record of a defragmentation: its options, and its progress. It is a cache, kept in
//! two slots. Maintenance calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 1 | 0 = at rest, 1 = running, 2 = paused |
//! | 41 | 1 | stage: [`DefragStage`] |
//! | 42 | 1 | bits: 1 also harms other owners, 2 everything, 4 by a trace, 8 objects were named |
//! | 43 | 1 | percentage of each object's ranges |
//! | 44 | 1 | a server began it: percentage of the bytes for a week; 0: a command did |
//! | 45 | 3 | zero |
//! | 48 | 8 | limit, bytes a second; 0: none |
//! | 56 | 16 | start, and end; 0: it has not ended |
//! | 72 | 16 | progress of the stage: [`DefragReport::cursor`], [`DefragReport::at`] |
//! | 88 | 8 | number of examined ranges |
//! | 96 | 104 | thirteen counts: [`DefragCounts`] |
//! | 200 | 112 | hot ranges for small regions: [`SmallCounts`] |
//! | 312 | 56 each | cost of the load before, and after: [`DefragToll`] |
//! | 424 | 16 | copied by servers by themselves: bytes, and from when they are forgiven |
//! | 440 | 32 | numbers of objects, ranges, moves, parts of moves that follow |
//! | 472 | 24 each | [`DefragObject`] |
//! | ... | 40 each | [`DefragRange`] |
//! | ... | 40 each | [`DefragMove`], without its parts |
//! | ... | 16 each | parts of the moves, in their order: first byte, first byte after it |
//! | ... | 8 | checksum of everything before |
//!
//! Invariant: slots are written alternately, so a torn one leaves its predecessor.

mod fields;

pub use fields::{
    DefragCounts, DefragMove, DefragObject, DefragRange, DefragStage, DefragToll, FetchToll,
    MoveCounts, SmallCounts,
};

use crate::bytes::{Reader, Result, Writer};
use crate::phase::TaskPhase;
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::{Stored, stored};
use units::{PoolId, UnixNanos};

/// Version that this program reads and writes. Version 1 did not know small regions, and version 2
/// did not know runs that a server begins: a run that they recorded is forgotten.
pub const VERSION: u16 = 3;
/// Maximum length of each list in a record.
pub const ENTRIES_MAX: usize = 1 << 18;
/// Largest record, bytes.
pub const DEFRAG_BYTES_MAX: u64 = 480 + (24 + 40 + 40 + 16) * ENTRIES_MAX as u64;

const FRAME: Frame = Frame {
    what: "defragmentation record",
    kind: BlobKind::Defrag,
    version: VERSION,
};

const MOVES_SHARED: u8 = 1;
const REWRITES_ALL: u8 = 2;
const IS_TRACED: u8 = 4;
const IS_NAMED: u8 = 8;

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragWish {
    /// Move ranges even if that harms other owners.
    pub moves_shared: bool,
    /// Move everything.
    pub rewrites_all: bool,
    /// Take the read ranges from a trace.
    pub is_traced: bool,
    /// The objects were named explicitly.
    pub is_named: bool,
    /// Percentage of each object's ranges, those that are read most.
    pub hot_percent: u8,
    /// A server began the run by itself, for hot chunks only: the percentage of the objects' bytes
    /// that such runs may copy in a week. 0: a command began it.
    pub weekly_percent: u8,
    /// Limit in bytes a second; 0: none.
    pub bytes_per_s: u64,
}

stored! {
    /// State of a run: what is shown of it, and a fixed part of its record.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DefragReport {
        /// Phase of the run.
        pub phase: TaskPhase,
        /// Stage of the current round.
        pub stage: DefragStage,
        /// Options of the run.
        pub wish: DefragWish,
        /// Start of the run; 0: there was none.
        pub began: UnixNanos,
        /// End of the run; 0 while it has not ended.
        pub ended: UnixNanos,
        /// Number of objects that are counted, or of ranges that are measured. While moves are
        /// judged: the key of the owner that is examined.
        pub cursor: u64,
        /// Number of bytes of that object, or of that owner, that are done.
        pub at: u64,
        /// Number of ranges that were examined, from the first on.
        pub examined: u64,
        /// Counts of the run.
        pub counts: DefragCounts,
        /// Cost of the load before the run.
        pub before: DefragToll,
        /// Cost of the load after the run, as far as it was measured.
        pub after: DefragToll,
        /// Bytes that earlier runs of servers had copied by themselves and that counted at
        /// `spent_at`,
        pub spent_bytes: u64,
        /// the time from which a week forgives them.
        pub spent_at: UnixNanos,
    }
}

/// The record of a defragmentation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefragRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// State of the run.
    pub report: DefragReport,
    /// Objects of the run, in its order.
    pub objects: Vec<DefragObject>,
    /// Ranges that are read according to the trace, in the order of the run; none without a trace.
    pub ranges: Vec<DefragRange>,
    /// Moves for the examined ranges that are not done yet.
    pub moves: Vec<DefragMove>,
}

impl Stored for DefragWish {
    fn put(&self, w: &mut Writer) {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits = bit(self.moves_shared, MOVES_SHARED)
            | bit(self.rewrites_all, REWRITES_ALL)
            | bit(self.is_traced, IS_TRACED)
            | bit(self.is_named, IS_NAMED);
        w.u8(bits)
            .u8(self.hot_percent)
            .u8(self.weekly_percent)
            .bytes(&[0; 3])
            .u64(self.bytes_per_s);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self> {
        let bits = r.u8()?;
        if bits & !(MOVES_SHARED | REWRITES_ALL | IS_TRACED | IS_NAMED) != 0 {
            return r.invalid("bits");
        }
        let (hot_percent, weekly_percent) = (r.u8()?, r.u8()?);
        if hot_percent > 100 || weekly_percent > 100 || r.array::<3>()? != [0; 3] {
            return r.invalid("field");
        }
        Ok(Self {
            moves_shared: bits & MOVES_SHARED != 0,
            rewrites_all: bits & REWRITES_ALL != 0,
            is_traced: bits & IS_TRACED != 0,
            is_named: bits & IS_NAMED != 0,
            hot_percent,
            weekly_percent,
            bytes_per_s: r.u64()?,
        })
    }
}

impl DefragWish {
    /// Returns true if a server began the run by itself.
    pub fn is_by_server(&self) -> bool {
        self.weekly_percent > 0
    }
}

impl DefragReport {
    /// Returns the number of ranges that the stage has done.
    pub fn ranges_done(&self) -> u64 {
        match self.stage {
            DefragStage::Measuring => self.cursor,
            _ => self.examined,
        }
    }
}

impl DefragRecord {
    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.seal(pool, |w| {
            w.u64(self.sequence);
            self.report.put(w);
            let parts: usize = self.moves.iter().map(|one| one.parts.len()).sum();
            w.u64(self.objects.len() as u64)
                .u64(self.ranges.len() as u64)
                .u64(self.moves.len() as u64)
                .u64(parts as u64);
            DefragObject::put_all(&self.objects, w);
            DefragRange::put_all(&self.ranges, w);
            self.moves.iter().for_each(|one| one.encode(w));
            for part in self.moves.iter().flat_map(|one| &one.parts) {
                w.u64(part.start).u64(part.end);
            }
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let mut record = Self {
            sequence: r.u64()?,
            report: DefragReport::take(&mut r)?,
            ..Self::default()
        };
        let (objects, ranges, moves, parts) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        let longest = objects.max(ranges).max(moves).max(parts);
        if longest > ENTRIES_MAX as u64 {
            return r.invalid("count");
        }
        record.objects = Stored::take_all(&mut r, objects)?;
        record.ranges = Stored::take_all(&mut r, ranges)?;
        let moves = (0..moves).map(|_| DefragMove::decode(&mut r));
        let moves = moves.collect::<Result<Vec<_>>>()?;
        let of_moves = moves.iter().map(|(_, parts)| u64::from(*parts));
        if of_moves.sum::<u64>() != parts {
            return r.invalid("parts");
        }
        for (mut one, parts) in moves {
            for _ in 0..parts {
                one.parts.push(r.u64()?..r.u64()?);
            }
            record.moves.push(one);
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

    fn record() -> DefragRecord {
        DefragRecord {
            sequence: 9,
            report: DefragReport {
                phase: TaskPhase::Paused,
                stage: DefragStage::Moving,
                wish: DefragWish {
                    rewrites_all: true,
                    hot_percent: 50,
                    weekly_percent: 3,
                    bytes_per_s: 1 << 20,
                    ..DefragWish::default()
                },
                began: UnixNanos(5),
                cursor: 1,
                examined: 2,
                counts: DefragCounts {
                    small: SmallCounts {
                        over: 3,
                        before: FetchToll {
                            weight: 7,
                            bytes_weighed: 1 << 80,
                        },
                        ..SmallCounts::default()
                    },
                    ..DefragCounts::default()
                },
                before: DefragToll {
                    weight: 1 << 90,
                    runs: 3,
                    ..DefragToll::default()
                },
                spent_bytes: 77,
                spent_at: UnixNanos(4),
                ..DefragReport::default()
            },
            objects: vec![DefragObject::default(); 2],
            ranges: vec![DefragRange {
                object: 7,
                start: 1,
                end: 1 << 40,
                weight: 256,
                is_hot: true,
                is_small: true,
            }],
            moves: vec![
                DefragMove {
                    object: 7,
                    parts: vec![1..2, 5..9],
                    is_small: true,
                    weight: 256,
                    runs: 4,
                    hurts: 1,
                },
                DefragMove::default(),
            ],
        }
    }

    #[test]
    fn a_record_comes_back_and_no_other_pool_believes_it() {
        let (pool, record) = (PoolId([3; 16]), record());
        let bytes = record.encode(pool);
        assert_eq!(bytes.len(), 472 + 2 * 24 + 40 + 2 * 40 + 2 * 16 + 8);
        assert_eq!(
            checksum(0, &bytes),
            0x70e2d1cb72da4367,
            "what older programs wrote"
        );
        assert_eq!(DefragRecord::decode(&bytes, pool), Ok(record));
        is_read_whole_only(&bytes, DefragRecord::decode);
    }
}
