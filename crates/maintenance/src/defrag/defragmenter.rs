//! A defragmentation run: its stages, step by step. The program calls this.
//!
//! Invariant: each step is bounded. Committed copies stay, whichever stage the run ends in.

mod resuming;
mod stages;

use super::allowance::carried;
use super::load::{Load, Subject};
use super::moving::Moving;
use super::outlook::Outlook;
use super::record::RecordedDefrag;
use super::report::{moved, set_moved};
use super::toll_estimator::TollEstimator;
use super::{DefragOptions, DefragReport, DefragSource, DefragStage, Heat};
use crate::listening::listen;
use crate::task::{Access, MaintenanceTask, TaskStep};
use duet::{Driver, DriverOptions, DriverStep, Duet, NothingPresent, Scope, Space, TaskProgress};
use format::defrag::{DefragCounts, DefragWish, SmallCounts};
use qos::Flow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use store::{Fragmentable, Move, MoveCounts, Result, StoreError};

/// Bits of a unit's number. The number is the move's rank by heat in its round.
const RANK_BITS: u32 = 32;

enum Stage {
    /// Counting the mapped bytes of the objects: the next object, and the bytes of it that are
    /// done.
    Sizing { object: usize, at: u64 },
    /// Looking for fragmented ranges.
    Examining { moves: Vec<Move>, bytes: u64 },
    /// Estimating how much each move would fragment other owners.
    Estimating(Box<TollEstimator>),
    /// Copying.
    Moving(Box<(Driver, Moving)>),
    /// Measuring the result; the next range.
    Measuring { cursor: usize },
    /// Ended, or failed.
    Done,
}

/// A run. See the module's head.
pub struct Defragmenter {
    source: DefragSource,
    duet: Arc<Duet>,
    options: DefragOptions,
    /// All objects of the pool: each of them may share a chunk.
    owners: Vec<Fragmentable>,
    roots: BTreeMap<u64, format::recipe::ObjectRoot>,
    load: Load,
    /// Number of examined ranges of the load.
    examined: usize,
    /// Chunks of the next range's object before this offset, bytes, were looked up.
    prepared: u64,
    stage: Stage,
    /// Options and numbers. Stage and progress are those of `stage`.
    report: DefragReport,
    outlook: Outlook,
    /// Number of the last record; 0: there is none.
    sequence: u64,
    /// Bytes of the copies that the last record counts.
    recorded_bytes: u64,
    /// Steps since the last record.
    unrecorded_steps: u64,
}

impl MaintenanceTask for Defragmenter {
    /// Error of a range that could not be read. The range stays where it is.
    type News = StoreError;
    /// After an error the run is over; its last record stays.
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Defragment
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<StoreError>> {
        let needs_device = !matches!(self.stage, Stage::Moving(_) | Stage::Done);
        if access == Access::Memory && needs_device {
            return Ok(TaskStep::NeedsDevice);
        }
        self.unrecorded_steps += 1;
        self.outlook.begin(self.stage(), now_ns);
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Sizing { object, at } => self.size(object, at, budget_bytes)?,
            Stage::Examining { moves, bytes } => self.examine(moves, bytes, budget_bytes)?,
            Stage::Estimating(toll_estimator) => self.judge(toll_estimator, budget_bytes)?,
            Stage::Moving(run) => return self.go_on_moving(run, now_ns, (budget_bytes, access)),
            Stage::Measuring { cursor } => self.measure(cursor, budget_bytes)?,
            Stage::Done => return Ok(TaskStep::Finished),
        }
        Ok(TaskStep::Worked { bytes: 0 })
    }
}

impl Defragmenter {
    /// Begins a run over the objects with these keys. With a trace, `heat` has the reads of all
    /// objects.
    pub fn new(
        source: DefragSource,
        objects: &[u64],
        heat: Option<Heat>,
        options: DefragOptions,
    ) -> Result<Self> {
        let owners = source.fragmentables()?;
        let roots: BTreeMap<_, _> = owners.iter().map(|one| (one.key, one.root)).collect();
        let chosen = |key: &u64| roots.get(key).map(|root| Subject::of(*key, root));
        let objects: Vec<_> = objects.iter().filter_map(chosen).collect();
        let amplified = match heat.is_some() && !options.rewrites_all {
            true => source.amplified(),
            false => Heat::new(),
        };
        let load = Load::new(&objects, heat, &amplified, options.hot_percent);
        let wish = DefragWish {
            moves_shared: options.moves_shared,
            rewrites_all: options.rewrites_all,
            is_traced: load.is_traced(),
            hot_percent: options.hot_percent,
            bytes_per_s: options.bytes_per_s.unwrap_or(0),
            ..DefragWish::default()
        };
        Ok(Self::of_load(source, owners, load, options, wish))
    }

    /// Begins a run over this load.
    pub(super) fn of_load(
        source: DefragSource,
        owners: Vec<Fragmentable>,
        load: Load,
        options: DefragOptions,
        wish: DefragWish,
    ) -> Self {
        let pool = source.pool();
        // Copies that servers made by themselves count on, also if a user begins this run.
        let last = RecordedDefrag::read(pool).map(|recorded| recorded.report());
        let spent = last.map(|last| carried(&last, pool.now()));
        let (spent_bytes, spent_at) = spent.unwrap_or_default();
        let report = DefragReport {
            wish,
            began: pool.now(),
            spent_bytes,
            spent_at,
            counts: DefragCounts {
                objects: load.objects().len() as u64,
                ranges: load.len() as u64,
                small: SmallCounts {
                    ranges: load.small_len() as u64,
                    ..SmallCounts::default()
                },
                ..DefragCounts::default()
            },
            ..DefragReport::default()
        };
        Self::at_begin(source, owners, load, options, report)
    }

    /// Returns the ranges that belong into small regions, by object, ascending.
    pub fn small_ranges(&self) -> &BTreeMap<u64, Vec<Range<u64>>> {
        self.load.small()
    }

    fn at_begin(
        source: DefragSource,
        owners: Vec<Fragmentable>,
        load: Load,
        options: DefragOptions,
        report: DefragReport,
    ) -> Self {
        let duet = match &source {
            DefragSource::Volumes(volumes) => Arc::clone(volumes.duet()),
            DefragSource::Pool(_) => Duet::silent(),
        };
        Self {
            roots: owners.iter().map(|one| (one.key, one.root)).collect(),
            source,
            duet,
            options,
            owners,
            load,
            examined: 0,
            prepared: 0,
            stage: Stage::Sizing { object: 0, at: 0 },
            recorded_bytes: report.counts.moved.bytes,
            report,
            outlook: Outlook::default(),
            sequence: 0,
            unrecorded_steps: 0,
        }
    }

    fn stage(&self) -> DefragStage {
        match &self.stage {
            Stage::Sizing { .. } => DefragStage::Sizing,
            Stage::Examining { .. } => DefragStage::Examining,
            Stage::Estimating(_) => DefragStage::Estimating,
            Stage::Moving(_) => DefragStage::Moving,
            Stage::Measuring { .. } => DefragStage::Measuring,
            Stage::Done => DefragStage::Done,
        }
    }

    /// Returns the state of the run. The phase is that of the last record.
    pub fn report(&self) -> DefragReport {
        let (cursor, at) = match &self.stage {
            Stage::Sizing { object, at } => (*object as u64, *at),
            Stage::Estimating(toll_estimator) => {
                let (owner, at) = toll_estimator.asked();
                (self.owners.get(owner).map_or(0, |one| one.key), at)
            }
            Stage::Measuring { cursor } => (*cursor as u64, 0),
            Stage::Examining { .. } | Stage::Moving(_) | Stage::Done => (0, 0),
        };
        DefragReport {
            stage: self.stage(),
            cursor,
            at,
            examined: match self.stage {
                Stage::Done => self.report.counts.ranges,
                _ => self.examined as u64,
            },
            ..self.report
        }
    }

    /// Returns the approximate amount of work left in each stage.
    fn left(&self) -> super::outlook::Amounts {
        let counts = &self.report.counts;
        let sizes = |object: usize, at: u64| {
            let objects = self.load.objects().iter().skip(object);
            let bytes: u64 = objects.map(|one| one.bytes).sum();
            bytes.saturating_sub(at)
        };
        let sizing = match &self.stage {
            Stage::Sizing { object, at } => sizes(*object, *at) as f64,
            _ => 0.0,
        };
        let toll_estimator = match &self.stage {
            Stage::Estimating(toll_estimator) => {
                self.owners.len().saturating_sub(toll_estimator.owner())
            }
            _ => 0,
        };
        let (ranges, examined) = (counts.ranges as f64, self.examined as f64);
        let unexamined = (ranges - examined).max(0.0);
        // Assume the same fraction for unexamined ranges as for examined ones.
        let wanted = counts.wanted_bytes as f64;
        let to_come = wanted * unexamined / examined.max(1.0);
        let moving = match &self.stage {
            Stage::Measuring { .. } | Stage::Done => 0.0,
            _ => (wanted - counts.moved.bytes as f64).max(0.0) + to_come,
        };
        let measuring = match &self.stage {
            Stage::Measuring { cursor } => ranges - *cursor as f64,
            Stage::Done => 0.0,
            _ => ranges,
        };
        [sizing, unexamined, toll_estimator as f64, moving, measuring]
    }

    /// Changes the rate limit.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.options.bytes_per_s = bytes_per_s;
        self.report.wish.bytes_per_s = bytes_per_s.unwrap_or(0);
        if let Stage::Moving(run) = &mut self.stage {
            run.0.limit(bytes_per_s);
        }
    }

    /// Commits the copies so far: before a pause, or an early end.
    pub fn settle(&mut self) -> Result<()> {
        self.outlook.stop();
        if let Stage::Moving(run) = &mut self.stage {
            let is_small = run.1.is_small();
            set_moved(&mut self.report, run.1.settle()?, is_small);
        }
        Ok(())
    }

    /// Requests a commit at the end of the current move: before a record that is due by time.
    pub fn settle_soon(&mut self) {
        if let Stage::Moving(run) = &mut self.stage {
            run.1.commit_soon();
        }
    }

    fn begin_judging(&mut self, moves: Vec<Move>, asked: (usize, u64)) -> Stage {
        let toll_estimator = TollEstimator::new(self.source.pool(), moves, asked);
        Stage::Estimating(Box::new(toll_estimator))
    }

    /// Begins to copy the moves that are fair.
    fn begin_moving(&mut self, mut moves: Vec<Move>) -> Result<()> {
        let all = moves.len();
        moves.retain(Move::is_fair);
        self.report.counts.unfair += (all - moves.len()) as u64;
        self.report.counts.wanted += moves.len() as u64;
        self.report.counts.wanted_bytes += moves.iter().map(Move::bytes).sum::<u64>();
        if self.options.dry_run {
            let in_pieces = moves.iter().filter(|one| !one.is_small);
            in_pieces.for_each(|one| moved(&mut self.report.after, one));
        }
        self.stage = match self.options.dry_run || moves.is_empty() {
            true => self.after_round(),
            false => self.copying(moves, false)?,
        };
        Ok(())
    }

    /// `is_resumed`: an earlier process may have copied some of them.
    fn copying(&self, moves: Vec<Move>, is_resumed: bool) -> Result<Stage> {
        // Small regions are written in the object's order, whatever is in memory.
        let is_small = moves.first().is_some_and(|one| one.is_small);
        let duet = match is_small {
            true => &Duet::silent(),
            false => &self.duet,
        };
        let session = listen(duet, Space::Chunks, Scope::Everything, RANK_BITS)?;
        let options = DriverOptions {
            bytes_per_s: self.options.bytes_per_s,
            ..DriverOptions::default()
        };
        let driver = Driver::new(session, options, TaskProgress::new(RANK_BITS));
        let task = Moving::new(
            self.source.clone(),
            self.options.lane,
            moves,
            &self.owners,
            self.report.counts.moved,
            is_resumed && !self.options.rewrites_all,
        );
        Ok(Stage::Moving(Box::new((driver, task))))
    }

    /// Continues with more of the load, or ends.
    fn after_round(&self) -> Stage {
        match self.load.get(self.examined) {
            Some(_) => Stage::Examining {
                moves: Vec::new(),
                bytes: 0,
            },
            None => Stage::Measuring { cursor: 0 },
        }
    }

    fn go_on_moving(
        &mut self,
        mut run: Box<(Driver, Moving)>,
        now_ns: u64,
        budget: (u64, Access),
    ) -> Result<TaskStep<StoreError>> {
        let (driver, task) = &mut *run;
        let step = match &self.source {
            DefragSource::Volumes(volumes) if !task.is_small() => {
                driver.step(task, volumes.present(), now_ns, budget)?
            }
            _ => driver.step(task, &NothingPresent, now_ns, budget)?,
        };
        set_moved(&mut self.report, task.counts(), task.is_small());
        let step = match step {
            DriverStep::Worked { processed, .. } => {
                let bytes = processed.bytes_read + processed.bytes_cached;
                self.outlook.did(DefragStage::Moving, bytes as f64);
                TaskStep::Worked { bytes }
            }
            DriverStep::Looked => TaskStep::Worked { bytes: 0 },
            DriverStep::NeedsDevice => TaskStep::NeedsDevice,
            DriverStep::Failed { error, .. } if !error.is_corruption() => return Err(error),
            DriverStep::Failed { error, .. } => {
                self.report.counts.failed += 1;
                TaskStep::News(error)
            }
            DriverStep::Waiting { until_ns } => TaskStep::Waiting { until_ns },
            DriverStep::Finished | DriverStep::Paused | DriverStep::Cancelled => {
                set_moved(&mut self.report, task.commit()?, task.is_small());
                self.stage = self.after_round();
                return Ok(TaskStep::Worked { bytes: 0 });
            }
        };
        self.stage = Stage::Moving(run);
        Ok(step)
    }

    /// Returns the committed copies.
    fn settled(&self) -> MoveCounts {
        match &self.stage {
            Stage::Moving(run) => run.1.settled(),
            _ => self.report.counts.moved,
        }
    }

    /// Returns true while copies go into small regions.
    fn is_moving_small(&self) -> bool {
        matches!(&self.stage, Stage::Moving(run) if run.1.is_small())
    }
}
