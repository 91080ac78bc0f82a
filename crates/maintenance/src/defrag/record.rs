//! The stored record of a run: its options and its progress. The defragmenter and the program use
//! it.
//!
//! Invariant: copies that a record counts were committed before it was written. A lost or old
//! record costs work, never more.

use super::{DefragReport, DefragStage};
use crate::slots;
use format::defrag::{DefragMove, DefragRecord, DefragWish};
use format::phase::TaskPhase;
use media::MediaError;
use store::{Move, Pool};
use units::UnixNanos;

/// The last record of a run.
#[derive(Debug)]
pub struct RecordedDefrag {
    pub(super) record: DefragRecord,
}

/// State of a run, in progress or not.
#[derive(Clone, Copy, Debug)]
pub struct DefragRun {
    /// Phase of the run.
    pub phase: TaskPhase,
    /// Options of the run.
    pub wish: DefragWish,
    /// Time of its begin.
    pub began: UnixNanos,
    /// Time of its end; 0 before.
    pub ended: UnixNanos,
    /// Results.
    pub report: DefragReport,
}

impl RecordedDefrag {
    /// Reads the last run; `None` if there was none or its record is lost.
    pub fn read(pool: &Pool) -> Option<Self> {
        let record: DefragRecord = slots::read(pool);
        (record.began != UnixNanos::default()).then_some(Self { record })
    }

    /// Returns the state of the run.
    pub fn run(&self) -> DefragRun {
        DefragRun {
            phase: self.record.phase,
            wish: self.record.wish,
            began: self.record.began,
            ended: self.record.ended,
            report: DefragReport::of(&self.record),
        }
    }

    /// Returns the keys of its objects.
    pub fn objects(&self) -> impl Iterator<Item = u64> {
        self.record.objects.iter().map(|one| one.key)
    }

    /// Returns true if the run has not ended and has the same options, so that the same request
    /// continues it. The rate limit may differ.
    pub fn is_unfinished_of(&self, wish: &DefragWish, objects: &[u64]) -> bool {
        let of = |wish: &DefragWish| DefragWish {
            bytes_per_s: 0,
            ..*wish
        };
        let are_they = || self.objects().eq(objects.iter().copied());
        self.record.phase != TaskPhase::AtRest
            && of(&self.record.wish) == of(wish)
            && (!wish.is_named || are_they())
    }

    /// Changes the rate limit.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.record.wish.bytes_per_s = bytes_per_s.unwrap_or(0);
    }

    /// Records that no process works on the run: paused, or ended for good.
    pub fn stop(&mut self, pool: &Pool, phase: TaskPhase) -> Result<(), MediaError> {
        self.record.phase = phase;
        if phase == TaskPhase::AtRest {
            end(&mut self.record, pool.now());
        }
        slots::write(pool, &mut self.record)
    }
}

/// Ends a record and drops the fields that are no longer needed.
pub fn end(record: &mut DefragRecord, now: UnixNanos) {
    record.phase = TaskPhase::AtRest;
    record.ended = now;
    if record.stage == DefragStage::Done {
        record.examined = record.counts.ranges;
    }
    record.objects = Vec::new();
    record.ranges = Vec::new();
    record.moves = Vec::new();
}

/// Converts a move for the record.
pub fn stored(one: &Move) -> DefragMove {
    DefragMove {
        object: one.object,
        parts: one.parts.clone(),
        weight: one.weight,
        runs: one.runs,
        hurts: one.hurts,
    }
}

/// Converts a move from the record. `is_asked`: `hurts` is valid.
pub fn taken_up(one: DefragMove, is_asked: bool) -> Move {
    Move {
        object: one.object,
        parts: one.parts,
        weight: one.weight,
        runs: one.runs,
        hurts: if is_asked { one.hurts } else { 0 },
    }
}
