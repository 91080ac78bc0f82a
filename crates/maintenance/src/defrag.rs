//! Defragmentation: what is read at once is copied to one place, if it is hot and lies in pieces
//! (FragPicker, SOSP'21; decision 25).
//!
//! A run examines the ranges of its load, the hottest first: the ranges of a trace, or, without one, all windows of
//! 128 KiB. Those that lie in more runs of regions than they need, and whose move hurts no other owner
//! more than it helps, are copied, those first of which most is in memory (Duet, SOSP'15). This goes on in
//! rounds, so that memory is bounded; in the end the load is measured again.
//!
//! Invariant: each step is bounded; stopped anywhere, a run has lost nothing, and the next one finds what is
//! left to do. Called by the program: a thread of a server, or a command.

mod load;
mod moving;
mod report;

pub use load::Heat;
pub use report::{DefragReport, DefragStage, Toll};

use duet::{Driver, DriverOptions, Duet, Mask, NothingPresent, Progress, Scope, Space, Step};
use fragpicker::{HotRange, PlanOptions, plan};
use load::{Item, Load};
use moving::Moving;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{
    CachedChunks, Fragmentable, LaneOptions, Move, Moves, NothingCached, Places, Pool, Result,
    StoreError, StoreErrorKind, Volumes,
};

/// Ranges that one step examines.
const RANGES_A_STEP: usize = 64;
/// Bytes of the moves that are judged and made together: memory is some percent of it.
const ROUND_BYTES: u64 = 4 << 30;
/// Bits of a work's number: it is its rank by heat in its round.
const RANK_BITS: u32 = 32;

/// What a run may do.
#[derive(Clone, Copy, Debug)]
pub struct DefragOptions {
    /// Of the ranges of each object, so many out of a hundred: those that are read most.
    pub hot_percent: u8,
    /// Also what hurts other owners.
    pub moves_shared: bool,
    /// Everything, fragmented or not: what the rest is compared with.
    pub rewrites_all: bool,
    /// Only says what it would do.
    pub dry_run: bool,
    /// Bytes read and written in a second, at most.
    pub bytes_per_s: Option<u64>,
    /// How copies are packed.
    pub lane: LaneOptions,
}

/// Whose objects they are, and what is in memory.
#[derive(Clone)]
pub enum DefragSource {
    /// A pool in which nobody else reads.
    Pool(Arc<Pool>),
    /// Open volumes: their page cache tells what is in memory.
    Volumes(Arc<Volumes>),
}

impl DefragSource {
    fn pool(&self) -> &Arc<Pool> {
        match self {
            Self::Pool(pool) => pool,
            Self::Volumes(volumes) => volumes.pool(),
        }
    }

    /// What is read of what, as far as anybody remembers.
    pub fn heat(&self) -> Heat {
        match self {
            Self::Pool(pool) => pool.stored_heat(),
            Self::Volumes(volumes) => volumes.heat(),
        }
    }

    /// What can be defragmented.
    pub fn fragmentables(&self) -> Result<Vec<Fragmentable>> {
        match self {
            Self::Pool(pool) => pool.fragmentables(),
            Self::Volumes(volumes) => volumes.fragmentables(),
        }
    }
}

/// What a step has done.
#[derive(Debug)]
pub enum DefragStep {
    /// Something; so many bytes were read and written.
    Worked {
        /// Plain bytes that were copied.
        bytes: u64,
    },
    /// A range could not be read: it is left where it is.
    Failed {
        /// Why.
        error: StoreError,
    },
    /// The rate limit does not allow more before this time, nanoseconds on the caller's clock.
    Waiting {
        /// On the caller's clock.
        until_ns: u64,
    },
    /// The run is over.
    Finished,
}

enum Stage {
    /// Looking for ranges that lie in pieces.
    Examining {
        cursor: usize,
        moves: Vec<Move>,
        bytes: u64,
    },
    /// Asking whom the moves would hurt; the next object that is asked.
    Judging {
        cursor: usize,
        moves: Moves,
        owner: usize,
    },
    /// Copying.
    Moving {
        cursor: usize,
        run: Box<(Driver, Moving)>,
    },
    /// Looking what it has brought.
    Measuring {
        cursor: usize,
    },
    Done,
}

/// A run. See the module's head.
pub struct Defragmenter {
    source: DefragSource,
    duet: Arc<Duet>,
    options: DefragOptions,
    /// All objects of the pool: any of them may own a chunk.
    owners: Vec<Fragmentable>,
    roots: BTreeMap<u64, format::recipe::ObjectRoot>,
    load: Load,
    stage: Stage,
    report: DefragReport,
}

impl Defragmenter {
    /// Begins a run over these objects, by their keys; with a trace, `heat` says what of all objects is read.
    pub fn new(
        source: DefragSource,
        objects: &[u64],
        heat: Option<Heat>,
        options: DefragOptions,
    ) -> Result<Self> {
        let owners = source.fragmentables()?;
        let roots: BTreeMap<_, _> = owners.iter().map(|one| (one.key, one.root)).collect();
        let chosen = |key: &u64| roots.get(key).map(|root| (*key, root.len));
        let objects: Vec<_> = objects.iter().filter_map(chosen).collect();
        let duet = match &source {
            DefragSource::Volumes(volumes) => Arc::clone(volumes.duet()),
            DefragSource::Pool(_) => Duet::new(duet::Options {
                items_max: 64,
                seed: 0,
            }),
        };
        let load = Load::new(&objects, heat, options.hot_percent);
        Ok(Self {
            report: DefragReport {
                objects: objects.len() as u64,
                is_traced: load.is_traced(),
                ranges: load.len() as u64,
                ..DefragReport::default()
            },
            source,
            duet,
            options,
            owners,
            roots,
            load,
            stage: Stage::Examining {
                cursor: 0,
                moves: Vec::new(),
                bytes: 0,
            },
        })
    }

    /// What it has found and done.
    pub fn report(&self) -> DefragReport {
        let (stage, cursor) = match &self.stage {
            Stage::Examining { cursor, .. } => (DefragStage::Examining, *cursor),
            Stage::Judging { cursor, .. } => (DefragStage::Judging, *cursor),
            Stage::Moving { cursor, .. } => (DefragStage::Moving, *cursor),
            Stage::Measuring { cursor } => (DefragStage::Measuring, *cursor),
            Stage::Done => (DefragStage::Done, self.load.len()),
        };
        DefragReport {
            stage,
            ranges_done: cursor as u64,
            ..self.report
        }
    }

    /// Does some work: about `budget_bytes` of copying. It is `now_ns`, nanoseconds since any moment.
    /// After an error the run is over.
    pub fn step(&mut self, now_ns: u64, budget_bytes: u64) -> Result<DefragStep> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Examining {
                cursor,
                moves,
                bytes,
            } => self.examine(cursor, moves, bytes)?,
            Stage::Judging {
                cursor,
                moves,
                owner,
            } => self.judge(cursor, moves, owner)?,
            Stage::Moving { cursor, run } => {
                return self.go_on_moving(cursor, run, now_ns, budget_bytes);
            }
            Stage::Measuring { cursor } => self.measure(cursor)?,
            Stage::Done => return Ok(DefragStep::Finished),
        }
        Ok(DefragStep::Worked { bytes: 0 })
    }

    /// Makes what was copied so far count: before a pause, or an early end.
    pub fn settle(&mut self) -> Result<()> {
        if let Stage::Moving { run, .. } = &mut self.stage {
            self.report.moved = run.1.commit()?;
        }
        Ok(())
    }

    fn places(&self) -> Places<'_> {
        let container_bytes = self.options.lane.container_bytes;
        Places::new(self.source.pool(), &self.roots, container_bytes)
    }

    fn examine(&mut self, mut cursor: usize, mut moves: Vec<Move>, mut bytes: u64) -> Result<()> {
        let mut report = self.report;
        let places = self.places();
        if cursor == 0 {
            for (object, _) in self.load.objects() {
                report.mapped_bytes += places.mapped_bytes(*object)?;
            }
        }
        let mut is_over = false;
        for _ in 0..RANGES_A_STEP {
            let Some(item) = self.load.get(cursor) else {
                is_over = true;
                break;
            };
            cursor += 1;
            match self.examine_one(&places, &item, &mut report) {
                Ok(Some(one)) => {
                    bytes += one.range.end - one.range.start;
                    moves.push(one);
                }
                Ok(None) => {}
                // Whoever reads it is told, and check names it.
                Err(e) if e.is_corruption() => report.failed += 1,
                Err(e) => return Err(e),
            }
        }
        drop(places);
        self.report = report;
        self.stage = match is_over || bytes >= ROUND_BYTES {
            false => Stage::Examining {
                cursor,
                moves,
                bytes,
            },
            true if moves.is_empty() => Stage::Measuring { cursor: 0 },
            true => {
                let root = |object| self.roots.get(&object).copied();
                Stage::Judging {
                    cursor,
                    moves: Moves::new(self.source.pool(), moves, &root)?,
                    owner: 0,
                }
            }
        };
        Ok(())
    }

    /// The move that a range wants.
    fn examine_one(
        &self,
        places: &Places<'_>,
        item: &Item,
        report: &mut DefragReport,
    ) -> Result<Option<Move>> {
        let HotRange { start, end, weight } = item.range;
        // Whom it hurts is asked for all moves at once.
        let options = PlanOptions { moves_shared: true };
        let planned = plan(
            places,
            item.object,
            std::slice::from_ref(&item.range),
            options,
        )?;
        let cost = places.cost_of_last();
        report.before.add(weight, &cost);
        if self.options.dry_run {
            report.after.add(weight, &cost);
        }
        let is_wanted = match self.options.rewrites_all {
            true => cost.bytes > 0,
            false => !planned.ranges.is_empty() && item.is_hot,
        };
        report.fragmented += u64::from(!planned.ranges.is_empty());
        report.hot += u64::from(item.is_hot);
        Ok(is_wanted.then_some(Move {
            object: item.object,
            range: start..end,
            weight,
            runs: cost.runs,
            hurts: 0,
        }))
    }

    /// Asks one owner after the other.
    fn judge(&mut self, cursor: usize, mut moves: Moves, owner: usize) -> Result<()> {
        let spares = self.options.moves_shared || self.options.rewrites_all;
        let Some(one) = self.owners.get(owner).filter(|_| !spares) else {
            return self.begin_moving(cursor, moves.into_moves());
        };
        let weighed = match self.load.heat_of(one.key) {
            // Without a trace anybody may read anything.
            None => moves.weigh_windows(&one.root, fragpicker::REQUEST_WEIGHT),
            Some(ranges) => ranges
                .iter()
                .try_for_each(|range| moves.weigh(&one.root, range.start..range.end, range.weight)),
        };
        match weighed {
            Err(e) if e.is_corruption() => self.report.failed += 1,
            weighed => weighed?,
        }
        let owner = owner + 1;
        self.stage = Stage::Judging {
            cursor,
            moves,
            owner,
        };
        Ok(())
    }

    fn begin_moving(&mut self, cursor: usize, mut moves: Vec<Move>) -> Result<()> {
        let all = moves.len();
        moves.retain(Move::is_fair);
        self.report.unfair += (all - moves.len()) as u64;
        self.report.wanted += moves.len() as u64;
        if self.options.dry_run || moves.is_empty() {
            for one in &moves {
                self.report.planned_bytes += one.range.end - one.range.start;
                self.report.after.moved(one);
            }
            self.stage = self.after_round(cursor);
            return Ok(());
        }
        let session = self
            .duet
            .register(Space::Chunks, Scope::Everything, Mask::EXISTS, RANK_BITS);
        let session =
            session.map_err(|e| StoreError::new(StoreErrorKind::Invalid, e.to_string()))?;
        let options = DriverOptions {
            bytes_per_s: self.options.bytes_per_s,
            ..DriverOptions::default()
        };
        let driver = Driver::new(session, options, Progress::new(RANK_BITS));
        let task = Moving::new(
            self.source.clone(),
            self.options.lane,
            moves,
            &self.owners,
            self.report.moved,
        );
        self.stage = Stage::Moving {
            cursor,
            run: Box::new((driver, task)),
        };
        Ok(())
    }

    /// More of the load, or the end.
    fn after_round(&self, cursor: usize) -> Stage {
        match self.load.get(cursor) {
            Some(_) => Stage::Examining {
                cursor,
                moves: Vec::new(),
                bytes: 0,
            },
            None => Stage::Measuring { cursor: 0 },
        }
    }

    fn go_on_moving(
        &mut self,
        cursor: usize,
        mut run: Box<(Driver, Moving)>,
        now_ns: u64,
        budget_bytes: u64,
    ) -> Result<DefragStep> {
        let (driver, task) = &mut *run;
        let step = match &self.source {
            DefragSource::Volumes(volumes) => {
                driver.step(task, volumes.present(), now_ns, budget_bytes)?
            }
            DefragSource::Pool(_) => driver.step(task, &NothingPresent, now_ns, budget_bytes)?,
        };
        self.report.moved = task.counts();
        let step = match step {
            Step::Worked { processed, .. } => DefragStep::Worked {
                bytes: processed.bytes_read + processed.bytes_cached,
            },
            Step::Looked => DefragStep::Worked { bytes: 0 },
            Step::Failed { error, .. } if !error.is_corruption() => return Err(error),
            Step::Failed { error, .. } => {
                self.report.failed += 1;
                DefragStep::Failed { error }
            }
            Step::Waiting { until_ns } => DefragStep::Waiting { until_ns },
            Step::Finished | Step::Paused | Step::Cancelled => {
                self.report.moved = task.commit()?;
                self.stage = self.after_round(cursor);
                return Ok(DefragStep::Worked { bytes: 0 });
            }
        };
        self.stage = Stage::Moving { cursor, run };
        Ok(step)
    }

    fn measure(&mut self, mut cursor: usize) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let mut after = self.report.after;
        let places = self.places();
        let mut is_over = false;
        for _ in 0..RANGES_A_STEP {
            let Some(item) = self.load.get(cursor) else {
                is_over = true;
                break;
            };
            cursor += 1;
            let HotRange { start, end, weight } = item.range;
            match places.cost(item.object, start..end) {
                Ok(cost) => after.add(weight, &cost),
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
        }
        drop(places);
        self.report.after = after;
        if !is_over {
            self.stage = Stage::Measuring { cursor };
        }
        Ok(())
    }
}

/// Who has chunks in memory.
fn memory_of(source: &DefragSource) -> &dyn CachedChunks {
    match source {
        DefragSource::Volumes(volumes) => &**volumes,
        DefragSource::Pool(_) => &NothingCached,
    }
}
