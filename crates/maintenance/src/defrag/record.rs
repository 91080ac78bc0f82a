//! The stored record of a run: its options and its progress. The defragmenter and the program use
//! it.
//!
//! Invariant: copies that a record counts were committed before it was written. A lost or old
//! record costs work, never more.

use super::{DefragReport, DefragStage};
use crate::report::{TaskBytes, TaskReport, TaskTotals, share};
use crate::slots;
use format::defrag::{DefragMove, DefragRecord, DefragWish};
use format::phase::TaskPhase;
use media::MediaError;
use qos::Flow;
use std::collections::BTreeMap;
use std::ops::Range;
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
    /// Options, progress and results.
    pub report: DefragReport,
    /// Seconds to the end at the present pace; `None` while unknown.
    pub eta_s: Option<f64>,
}

impl RecordedDefrag {
    /// Reads the last run; `None` if there was none or its record is lost.
    pub fn read(pool: &Pool) -> Option<Self> {
        let record: DefragRecord = slots::read(pool);
        (record.report.began != UnixNanos::default()).then_some(Self { record })
    }

    /// Reads the last run, if it has not ended.
    pub fn unfinished(pool: &Pool) -> Option<Self> {
        Self::read(pool).filter(|recorded| recorded.report().phase != TaskPhase::AtRest)
    }

    /// Returns the state of the run.
    pub fn report(&self) -> DefragReport {
        self.record.report
    }

    /// Returns the ranges that a run which is over left in small regions, by object, ascending.
    pub fn small_ranges(&self) -> BTreeMap<u64, Vec<Range<u64>>> {
        let mut ranges: BTreeMap<u64, Vec<Range<u64>>> = BTreeMap::new();
        let is_over = self.record.report.phase == TaskPhase::AtRest;
        for one in self.record.ranges.iter().filter(|_| is_over) {
            let of = ranges.entry(one.object).or_default();
            of.push(one.start..one.end);
        }
        ranges
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
        self.record.report.phase != TaskPhase::AtRest
            && of(&self.record.report.wish) == of(wish)
            && (!wish.is_named || are_they())
    }

    /// Changes the rate limit.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.record.report.wish.bytes_per_s = bytes_per_s.unwrap_or(0);
    }

    /// Records that no process works on the run: paused, or ended for good.
    pub fn stop(&mut self, pool: &Pool, phase: TaskPhase) -> Result<(), MediaError> {
        self.record.report.phase = phase;
        if phase == TaskPhase::AtRest {
            end(&mut self.record, pool.now());
        }
        slots::write(pool, &mut self.record)
    }
}

impl From<DefragReport> for DefragRun {
    fn from(report: DefragReport) -> Self {
        Self {
            report,
            eta_s: None,
        }
    }
}

impl TaskReport for DefragRun {
    const NAME: &'static str = "defrag";
    const DOING: &'static str = "defragmenting";
    const FLOW: Flow = Flow::Defragment;

    fn phase(&self) -> TaskPhase {
        self.report.phase
    }

    fn began(&self) -> UnixNanos {
        self.report.began
    }

    fn progress(&self) -> f64 {
        let report = &self.report;
        match (report.phase, report.stage) {
            (TaskPhase::AtRest, _) | (_, DefragStage::Sizing) => 0.0,
            (_, DefragStage::Measuring | DefragStage::Done) => 1.0,
            _ => share(report.ranges_done(), report.counts.ranges),
        }
    }

    fn totals(&self) -> TaskTotals {
        let counts = &self.report.counts;
        TaskTotals {
            bytes: TaskBytes::of(counts.moved.bytes, counts.moved.cached_bytes),
            damaged: counts.failed,
        }
    }

    /// Each byte is read and written. Assumes the same fraction for unexamined ranges as for
    /// examined ones.
    fn left_bytes(&self) -> u64 {
        let counts = &self.report.counts;
        let wanted = match (self.report.stage, self.report.ranges_done()) {
            (DefragStage::Measuring | DefragStage::Done, _) => return 0,
            (_, 0) => counts.mapped_bytes,
            (_, ranges_done) => {
                let all = u128::from(counts.wanted_bytes) * u128::from(counts.ranges);
                let all = all / u128::from(ranges_done);
                u64::try_from(all).unwrap_or(u64::MAX)
            }
        };
        wanted.saturating_sub(counts.moved.bytes).saturating_mul(2)
    }
}

/// Ends a record and drops the fields that are no longer needed. The ranges that belong into small
/// regions stay, if all of them are there: a server begins no run for the same ones.
pub fn end(record: &mut DefragRecord, now: UnixNanos) {
    let report = &mut record.report;
    (report.phase, report.ended) = (TaskPhase::AtRest, now);
    let is_through = report.stage == DefragStage::Done && report.counts.small.over == 0;
    record.ranges.retain(|one| is_through && one.is_small);
    record.objects = Vec::new();
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
        is_small: one.is_small,
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
        is_small: one.is_small,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::defrag::DefragCounts;

    #[test]
    fn a_run_expects_of_the_rest_what_it_found_so_far() {
        let mut run = DefragRun::from(DefragReport {
            phase: TaskPhase::UnderWay,
            began: UnixNanos(7),
            stage: DefragStage::Moving,
            counts: DefragCounts {
                mapped_bytes: 1000,
                ranges: 100,
                ..DefragCounts::default()
            },
            ..DefragReport::default()
        });
        assert_eq!(run.left_bytes(), 2000, "nothing is known");
        (run.report.examined, run.report.counts.wanted_bytes) = (50, 100);
        assert_eq!(run.left_bytes(), 400);
        run.report.counts.moved.bytes = 60;
        assert_eq!(run.left().map(|left| left.bytes), Some(280));
        run.report.stage = DefragStage::Measuring;
        assert_eq!(run.left_bytes(), 0);
        run.report.phase = TaskPhase::Paused;
        assert_eq!(run.left(), None);
    }
}
