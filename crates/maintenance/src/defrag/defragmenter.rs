//! A run of defragmentation: its stages, step by step.
//!
//! Invariant: each step is bounded; whatever stage it ends in, what was committed stays. Called by the program.

use super::examining::examine;
use super::load::{Item, Load, Subject};
use super::moving::Moving;
use super::{DefragOptions, DefragReport, DefragSource, DefragStage, DefragStep, Heat};
use duet::{Driver, DriverOptions, Duet, Mask, NothingPresent, Progress, Scope, Space, Step};
use fragpicker::HotRange;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Fragmentable, Move, Moves, Places, Result, StoreError, StoreErrorKind, read_at_once};

/// Ranges that one step examines, and bytes of them.
const STEP_RANGES: usize = 64;
const STEP_BYTES: u64 = 8 << 20;
/// Bytes of the moves that are judged and made together: memory is some percent of it.
const ROUND_BYTES: u64 = 4 << 30;
/// Bits of a work's number: it is its rank by heat in its round.
const RANK_BITS: u32 = 32;

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
        let chosen = |key: &u64| {
            roots.get(key).map(|root| Subject {
                key: *key,
                bytes: root.len,
                read_at_once: read_at_once(root),
            })
        };
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

    /// The ranges of one step, from `cursor` on, and whether no others come after them.
    fn next_items(&self, cursor: &mut usize) -> (Vec<Item>, bool) {
        let (mut items, mut looked) = (Vec::new(), 0);
        while items.len() < STEP_RANGES && looked < STEP_BYTES {
            let Some(item) = self.load.get(*cursor) else {
                return (items, true);
            };
            *cursor += 1;
            looked += item.range.end - item.range.start;
            items.push(item);
        }
        (items, false)
    }

    fn examine(&mut self, mut cursor: usize, mut moves: Vec<Move>, mut bytes: u64) -> Result<()> {
        let mut report = self.report;
        let places = self.places();
        if cursor == 0 {
            for object in self.load.objects() {
                report.mapped_bytes += places.mapped_bytes(object.key)?;
            }
        }
        let (items, is_over) = self.next_items(&mut cursor);
        for item in items {
            match examine(&places, &item, &self.options, &mut report) {
                Ok(Some(one)) => {
                    bytes += one.bytes();
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
                self.report.planned_bytes += one.bytes();
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
        let (items, is_over) = self.next_items(&mut cursor);
        for item in items {
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
