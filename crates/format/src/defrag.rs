//! What a defragmentation was asked for, and how far it is: a cache, kept in two slots.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 1 | 0 = at rest, 1 = under way, 2 = paused |
//! | 41 | 1 | stage: [`DefragStage`] |
//! | 42 | 1 | bits: 1 also what hurts other owners, 2 everything, 4 by a trace, 8 objects were named |
//! | 43 | 1 | of the ranges of each object, so many out of a hundred |
//! | 44 | 4 | zero |
//! | 48 | 8 | bytes a second, at most; 0: as many as there are |
//! | 56 | 16 | when it began, and when it ended; 0: it has not |
//! | 72 | 16 | how far the stage is: [`DefragRecord::cursor`], [`DefragRecord::at`] |
//! | 88 | 8 | ranges that were examined |
//! | 96 | 104 | thirteen counts: [`DefragCounts`] |
//! | 200 | 56 each | what the load cost before, and after: [`DefragToll`] |
//! | 312 | 32 | how many follow: objects, ranges, moves, parts of moves |
//! | 344 | 24 each | [`DefragObject`] |
//! | ... | 40 each | [`DefragRange`] |
//! | ... | 40 each | [`DefragMove`], without its parts |
//! | ... | 16 each | parts of the moves, in their order: first byte, first byte after it |
//! | ... | 8 | checksum of all before |
//!
//! Invariant: slots are written in turn, so a torn one leaves its predecessor. Called by maintenance.

mod fields;

pub use fields::{DefragCounts, DefragMove, DefragObject, DefragRange, DefragStage, DefragToll};

use crate::bytes::{Reader, Result, Writer};
use crate::phase::TaskPhase;
use crate::preamble::Kind;
use crate::record::Frame;
use units::{PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Of each list of a record, at most.
pub const ENTRIES_MAX: usize = 1 << 18;
/// Largest record, bytes.
pub const DEFRAG_BYTES_MAX: u64 = 352 + (24 + 40 + 40 + 16) * ENTRIES_MAX as u64;

const FRAME: Frame = Frame {
    what: "defragmentation record",
    kind: Kind::Defrag,
    version: VERSION,
};

const MOVES_SHARED: u8 = 1;
const REWRITES_ALL: u8 = 2;
const IS_TRACED: u8 = 4;
const IS_NAMED: u8 = 8;
const PART_BYTES: u64 = 16;

/// What somebody wants of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragWish {
    /// Also what hurts other owners is moved.
    pub moves_shared: bool,
    /// Everything is moved.
    pub rewrites_all: bool,
    /// A trace says what is read.
    pub is_traced: bool,
    /// Somebody said which objects.
    pub is_named: bool,
    /// Of the ranges of each object, those that are read most: percent.
    pub hot_percent: u8,
    /// Bytes a second at most, unless 0.
    pub bytes_per_s: u64,
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefragRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// What it is doing.
    pub phase: TaskPhase,
    /// Of the round that it is in.
    pub stage: DefragStage,
    /// What it was asked for.
    pub wish: DefragWish,
    /// When it began; 0: there was none.
    pub began: UnixNanos,
    /// When it ended; 0 while it has not.
    pub ended: UnixNanos,
    /// Of the objects that are counted, of the ranges that are measured, their number; while owners are asked, the
    /// key of the one whose turn it is.
    pub cursor: u64,
    /// Bytes of that object, or of that owner, that are done.
    pub at: u64,
    /// Ranges that were examined, from the first on.
    pub examined: u64,
    /// In numbers.
    pub counts: DefragCounts,
    /// What the load cost before ...
    pub before: DefragToll,
    /// ... and costs after, as far as it was measured.
    pub after: DefragToll,
    /// The objects of the run, in its order.
    pub objects: Vec<DefragObject>,
    /// What is read of them by the trace, in the order of the run; none without a trace.
    pub ranges: Vec<DefragRange>,
    /// What of the examined ranges is to be moved, and is not yet.
    pub moves: Vec<DefragMove>,
}

impl DefragWish {
    fn encode(&self, w: &mut Writer) {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits = bit(self.moves_shared, MOVES_SHARED)
            | bit(self.rewrites_all, REWRITES_ALL)
            | bit(self.is_traced, IS_TRACED)
            | bit(self.is_named, IS_NAMED);
        w.u8(bits)
            .u8(self.hot_percent)
            .bytes(&[0; 4])
            .u64(self.bytes_per_s);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let bits = r.u8()?;
        if bits & !(MOVES_SHARED | REWRITES_ALL | IS_TRACED | IS_NAMED) != 0 {
            return r.invalid("bits");
        }
        let hot_percent = r.u8()?;
        if hot_percent > 100 || r.array::<4>()? != [0; 4] {
            return r.invalid("field");
        }
        Ok(Self {
            moves_shared: bits & MOVES_SHARED != 0,
            rewrites_all: bits & REWRITES_ALL != 0,
            is_traced: bits & IS_TRACED != 0,
            is_named: bits & IS_NAMED != 0,
            hot_percent,
            bytes_per_s: r.u64()?,
        })
    }
}

impl DefragRecord {
    /// The bytes of this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.seal(pool, |w| {
            w.u64(self.sequence)
                .u8(self.phase as u8)
                .u8(self.stage as u8);
            self.wish.encode(w);
            w.u64(self.began.0 as u64)
                .u64(self.ended.0 as u64)
                .u64(self.cursor)
                .u64(self.at)
                .u64(self.examined);
            self.counts.encode(w);
            self.before.encode(w);
            self.after.encode(w);
            let parts: usize = self.moves.iter().map(|one| one.parts.len()).sum();
            for count in [
                self.objects.len(),
                self.ranges.len(),
                self.moves.len(),
                parts,
            ] {
                w.u64(count as u64);
            }
            self.objects.iter().for_each(|one| one.encode(w));
            self.ranges.iter().for_each(|one| one.encode(w));
            self.moves.iter().for_each(|one| one.encode(w));
            for part in self.moves.iter().flat_map(|one| &one.parts) {
                w.u64(part.start).u64(part.end);
            }
        })
    }

    /// Verifies the bytes of a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let r = &mut r;
        let mut record = Self {
            sequence: r.u64()?,
            phase: TaskPhase::decode(r)?,
            stage: DefragStage::decode(r)?,
            wish: DefragWish::decode(r)?,
            began: UnixNanos(r.i64()?),
            ended: UnixNanos(r.i64()?),
            cursor: r.u64()?,
            at: r.u64()?,
            examined: r.u64()?,
            counts: DefragCounts::decode(r)?,
            before: DefragToll::decode(r)?,
            after: DefragToll::decode(r)?,
            ..Self::default()
        };
        let (objects, ranges, moves, parts) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        let lists = [
            (objects, DefragObject::BYTES),
            (ranges, DefragRange::BYTES),
            (moves, DefragMove::BYTES),
            (parts, PART_BYTES),
        ];
        if lists.iter().any(|(count, _)| *count > ENTRIES_MAX as u64) {
            return r.invalid("count");
        }
        let bytes: u64 = lists.iter().map(|(count, each)| count * each).sum();
        if bytes != r.rest().len() as u64 {
            return r.invalid("length");
        }
        record.objects = list(r, objects, DefragObject::decode)?;
        record.ranges = list(r, ranges, DefragRange::decode)?;
        let moves = list(r, moves, DefragMove::decode)?;
        if moves
            .iter()
            .map(|(_, parts)| u64::from(*parts))
            .sum::<u64>()
            != parts
        {
            return r.invalid("parts");
        }
        for (mut one, parts) in moves {
            one.parts = list(r, parts.into(), |r| Ok(r.u64()?..r.u64()?))?;
            record.moves.push(one);
        }
        Ok(record)
    }
}

/// So many of them; there are bytes for all.
fn list<T>(
    r: &mut Reader<'_>,
    count: u64,
    decode: impl Fn(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..count).map(|_| decode(r)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::checksum;
    use crate::record::is_read_whole_only;

    fn record() -> DefragRecord {
        DefragRecord {
            sequence: 9,
            phase: TaskPhase::Paused,
            stage: DefragStage::Moving,
            wish: DefragWish {
                rewrites_all: true,
                hot_percent: 50,
                bytes_per_s: 1 << 20,
                ..DefragWish::default()
            },
            began: UnixNanos(5),
            cursor: 1,
            examined: 2,
            before: DefragToll {
                weight: 1 << 90,
                runs: 3,
                ..DefragToll::default()
            },
            objects: vec![DefragObject::default(); 2],
            ranges: vec![DefragRange {
                object: 7,
                start: 1,
                end: 1 << 40,
                weight: 256,
                is_hot: true,
            }],
            moves: vec![
                DefragMove {
                    object: 7,
                    parts: vec![1..2, 5..9],
                    weight: 256,
                    runs: 4,
                    hurts: 1,
                },
                DefragMove::default(),
            ],
            ..DefragRecord::default()
        }
    }

    #[test]
    fn a_record_comes_back_and_no_other_pool_believes_it() {
        let (pool, record) = (PoolId([3; 16]), record());
        let bytes = record.encode(pool);
        assert_eq!(bytes.len(), 344 + 2 * 24 + 40 + 2 * 40 + 2 * 16 + 8);
        assert_eq!(
            checksum(0, &bytes),
            0x13aff650d18e7be9,
            "what older programs wrote"
        );
        assert_eq!(DefragRecord::decode(&bytes, pool), Ok(record));
        is_read_whole_only(&bytes, DefragRecord::decode);
    }
}
