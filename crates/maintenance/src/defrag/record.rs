//! What a run was asked for and how far it is, as it is written down: it outlives the process.
//!
//! Invariant: what a record calls copied was committed before; a record that is lost, or older than what was done, costs work
//! and never more. Called by the defragmenter and the program.

use super::{DefragReport, DefragStage};
use crate::slots;
use format::defrag::{DefragMove, DefragRecord, DefragWish};
use format::phase::TaskPhase;
use media::MediaError;
use store::{Move, Pool};
use units::UnixNanos;

/// A run as it was written down last.
#[derive(Debug)]
pub struct RecordedDefrag {
    pub(super) record: DefragRecord,
}

/// A run, under way or not.
#[derive(Clone, Copy, Debug)]
pub struct DefragRun {
    /// What it is doing.
    pub phase: TaskPhase,
    /// What it was asked for.
    pub wish: DefragWish,
    /// When it began.
    pub began: UnixNanos,
    /// When it ended; 0 while it has not.
    pub ended: UnixNanos,
    /// What it has done.
    pub report: DefragReport,
}

impl RecordedDefrag {
    /// The last run; `None`: there was none, or nobody knows.
    pub fn read(pool: &Pool) -> Option<Self> {
        let record: DefragRecord = slots::read(pool);
        (record.began != UnixNanos::default()).then_some(Self { record })
    }

    /// How far it was.
    pub fn run(&self) -> DefragRun {
        DefragRun {
            phase: self.record.phase,
            wish: self.record.wish,
            began: self.record.began,
            ended: self.record.ended,
            report: DefragReport::of(&self.record),
        }
    }

    /// Its objects, by their keys.
    pub fn objects(&self) -> impl Iterator<Item = u64> {
        self.record.objects.iter().map(|one| one.key)
    }

    /// It has not ended, and was asked for just this: who asks again wants it to go on. The rate may be another.
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

    /// From now on so many bytes a second, at most.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.record.wish.bytes_per_s = bytes_per_s.unwrap_or(0);
    }

    /// Nobody works on it: it stays where it is until somebody says so, or for ever.
    pub fn stop(&mut self, pool: &Pool, phase: TaskPhase) -> Result<(), MediaError> {
        self.record.phase = phase;
        if phase == TaskPhase::AtRest {
            end(&mut self.record, pool.now());
        }
        slots::write(pool, &mut self.record)
    }
}

/// What is not needed any more is left out.
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

/// A move as it is written down.
pub fn stored(one: &Move) -> DefragMove {
    DefragMove {
        object: one.object,
        parts: one.parts.clone(),
        weight: one.weight,
        runs: one.runs,
        hurts: one.hurts,
    }
}

/// And back. `is_asked`: what it hurts is known.
pub fn taken_up(one: DefragMove, is_asked: bool) -> Move {
    Move {
        object: one.object,
        parts: one.parts,
        weight: one.weight,
        runs: one.runs,
        hurts: if is_asked { one.hurts } else { 0 },
    }
}
