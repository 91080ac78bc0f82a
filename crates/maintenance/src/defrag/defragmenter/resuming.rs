//! Records the progress of a run, and resumes from a record. The program calls this between steps.
//!
//! Invariant: a record counts only committed copies. A process that dies therefore repeats at most
//! its work since the last record.

use super::{Defragmenter, Stage};
use crate::defrag::load::Load;
use crate::defrag::record::{DefragRun, RecordedDefrag, end, stored, taken_up};
use crate::defrag::report::set_moved;
use crate::defrag::{DefragOptions, DefragReport, DefragSource, DefragStage};
use crate::slots;
use crate::task::ControlledTask;
use format::defrag::DefragRecord;
use format::phase::TaskPhase;
use store::{LaneOptions, Move, Pool, Result};

/// Maximum number of steps between two records. Each commit of copies is recorded too.
const RECORD_EVERY_STEPS: u64 = 4096;

impl Defragmenter {
    /// Resumes a recorded run. `lane` says how copies are packed. Deleted objects are left out.
    /// Owners that were created since are judged like the others.
    pub fn resume(
        source: DefragSource,
        recorded: RecordedDefrag,
        lane: LaneOptions,
    ) -> Result<Self> {
        let record = recorded.record;
        let (wish, report) = (record.report.wish, record.report);
        let options = DefragOptions {
            hot_percent: wish.hot_percent,
            moves_shared: wish.moves_shared,
            rewrites_all: wish.rewrites_all,
            dry_run: false,
            bytes_per_s: (wish.bytes_per_s > 0).then_some(wish.bytes_per_s),
            lane,
        };
        let owners = source.fragmentables()?;
        let heat = wish.is_traced.then(|| source.heat());
        let load = Load::stored(&record.objects, &record.ranges, heat);
        let mut run = Self::at_begin(source, owners, load, options, report);
        run.sequence = record.sequence;
        run.examined = usize::try_from(report.examined).unwrap_or(usize::MAX);
        let cursor = usize::try_from(report.cursor).unwrap_or(usize::MAX);
        // If the owner in progress was deleted, its place in the order is unknown: judge all owners
        // again.
        let mut keys = run.owners.iter().map(|one| one.key);
        let owner = keys.position(|key| key == report.cursor);
        let asked = owner.map(|owner| (owner, report.at));
        let is_asked = report.stage != DefragStage::Estimating || asked.is_some();
        let moves = record.moves.into_iter().map(|m| taken_up(m, is_asked));
        let moves: Vec<Move> = moves.collect();
        run.stage = match report.stage {
            DefragStage::Sizing => Stage::Sizing {
                object: cursor,
                at: report.at,
            },
            DefragStage::Examining => Stage::Examining {
                bytes: moves.iter().map(Move::bytes).sum(),
                moves,
            },
            DefragStage::Estimating => run.begin_judging(moves, asked.unwrap_or_default()),
            DefragStage::Moving => run.copying(moves, true)?,
            DefragStage::Measuring => Stage::Measuring { cursor },
            DefragStage::Done => Stage::Done,
        };
        Ok(run)
    }

    /// The run was requested for named objects.
    pub fn set_named(&mut self) {
        self.report.wish.is_named = true;
    }

    /// Returns the keys of its objects.
    pub fn objects(&self) -> impl Iterator<Item = u64> {
        self.load.objects().iter().map(|one| one.key)
    }

    /// Returns true if a record is due.
    pub fn wants_record(&self) -> bool {
        self.unrecorded_steps >= RECORD_EVERY_STEPS || self.settled().bytes != self.recorded_bytes
    }

    /// Records the progress, or that the run has ended.
    pub fn record(&mut self) -> Result<()> {
        match self.stage {
            Stage::Done => self.write(TaskPhase::AtRest),
            _ => self.write(TaskPhase::UnderWay),
        }
    }

    /// Commits the copies so far, and records that the run is paused.
    pub fn pause(&mut self) -> Result<()> {
        self.settle()?;
        self.write(TaskPhase::Paused)
    }

    /// Commits the copies so far, and records that the rest is cancelled.
    pub fn cancel(&mut self) -> Result<()> {
        self.settle()?;
        self.write(TaskPhase::AtRest)
    }

    fn write(&mut self, phase: TaskPhase) -> Result<()> {
        self.unrecorded_steps = 0;
        let pool = self.source.pool();
        // Another process may have written a record of an earlier run meanwhile.
        if self.sequence == 0 {
            self.sequence = slots::read::<DefragRecord>(pool).sequence;
        }
        let (objects, ranges) = self.load.to_store();
        let mut record = DefragRecord {
            sequence: self.sequence,
            report: DefragReport {
                phase,
                ..self.report()
            },
            objects,
            ranges,
            moves: match &self.stage {
                Stage::Examining { moves, .. } => moves.iter().map(stored).collect(),
                Stage::Estimating(toll_estimator) => toll_estimator.moves().map(stored).collect(),
                Stage::Moving(run) => run.1.unsettled().map(stored).collect(),
                Stage::Sizing { .. } | Stage::Measuring { .. } | Stage::Done => Vec::new(),
            },
        };
        set_moved(&mut record.report, self.settled(), self.is_moving_small());
        if phase == TaskPhase::AtRest {
            end(&mut record, pool.now());
        }
        let written = slots::write(pool, &mut record);
        self.sequence = record.sequence;
        self.recorded_bytes = record.report.counts.moved.bytes;
        (self.report.phase, self.report.ended) = (phase, record.report.ended);
        Ok(written?)
    }
}

impl ControlledTask for Defragmenter {
    type Report = DefragRun;

    fn report(&self, phase: TaskPhase) -> DefragRun {
        DefragRun {
            report: DefragReport {
                phase,
                ..self.report()
            },
            eta_s: self.outlook.seconds_for(&self.left()),
        }
    }

    fn limit(&mut self, bytes_per_s: Option<u64>) {
        Self::limit(self, bytes_per_s);
    }

    fn wants_record(&self) -> bool {
        Self::wants_record(self)
    }

    fn settle_soon(&mut self) {
        Self::settle_soon(self);
    }

    fn record(&mut self) -> Result<()> {
        Self::record(self)
    }

    fn stop(&mut self, phase: TaskPhase) -> Result<()> {
        match phase {
            TaskPhase::AtRest => self.cancel(),
            TaskPhase::Paused => self.pause(),
            TaskPhase::UnderWay => {
                self.settle()?;
                Self::record(self)
            }
        }
    }

    fn last_recorded(pool: &Pool) -> Option<DefragRun> {
        RecordedDefrag::read(pool).map(|recorded| recorded.report().into())
    }

    fn stop_recorded(pool: &Pool, phase: TaskPhase) -> Result<Option<DefragRun>> {
        let Some(mut recorded) = RecordedDefrag::unfinished(pool) else {
            return Ok(None);
        };
        recorded.stop(pool, phase)?;
        Ok(Some(recorded.report().into()))
    }
}
