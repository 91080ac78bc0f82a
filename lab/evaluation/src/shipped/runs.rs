//! Runs of the experiment: how much of the disk the web server may use until maintenance is late.
//!
//! The page calls this; so do tests.
//! Invariant: results do not depend on the number of threads.

use super::pool::Base;
use super::settings::Settings;
use super::tasks::Kind;
use super::world::{Outcome, World};
use crate::disk::Ns;
use crate::maintenance::grid::map;
use crate::maintenance::settings::{Load, Picks};
use std::collections::BTreeMap;
use store::Result;

/// Tasks beside the web server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tasks {
    /// None: the base of the web server's latencies.
    Nothing,
    /// Replication alone.
    Backup,
    /// Scrub, replication, defragmentation.
    Three,
    /// The same and garbage collection.
    Four,
}

impl Tasks {
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Nothing => &[],
            Self::Backup => &[Kind::Replication],
            Self::Three => &[Kind::Scrub, Kind::Replication, Kind::Defragmentation],
            Self::Four => &[
                Kind::Scrub,
                Kind::Replication,
                Kind::Defragmentation,
                Kind::Collection,
            ],
        }
    }
}

/// Tasks, and whether they have page events.
pub type Variant = (Tasks, bool);

/// A run: tasks, whether they have events, overlap, utilisation.
pub type Cell = (Tasks, bool, u64, u64);

/// Results by run.
pub type Grid = BTreeMap<Cell, Outcome>;

/// The experiment: the pool, and the costs of the web server's requests by overlap.
pub struct Experiment {
    settings: Settings,
    base: Base,
    costs: BTreeMap<u64, Ns>,
}

impl Experiment {
    /// Builds the pool and measures the requests for these overlaps.
    pub fn new(settings: Settings, overlaps: &[u64], threads: usize) -> Result<Self> {
        let base = Base::new(&settings)?;
        let cost = |overlap: &u64| -> Result<Ns> {
            World::new(settings, &base, load(*overlap, 100), 0)?.web_cost()
        };
        let costs = map(overlaps, threads, cost).into_iter();
        let costs = costs.map(|(overlap, cost)| cost.map(|cost| (overlap, cost)));
        Ok(Self {
            costs: costs.collect::<Result<_>>()?,
            base,
            settings,
        })
    }

    /// Returns the disk time of a web server's request.
    pub fn cost(&self, overlap: u64) -> Ns {
        self.costs.get(&overlap).copied().unwrap_or(1)
    }

    /// Runs one cell.
    pub fn run(&self, (tasks, has_events, overlap, utilisation): Cell) -> Result<Outcome> {
        let load = load(overlap, utilisation);
        let world = World::new(self.settings, &self.base, load, self.cost(overlap))?;
        world.experiment(tasks.kinds(), has_events)
    }

    /// Runs these cells.
    pub fn all(&self, cells: &[Cell], threads: usize) -> Result<Grid> {
        let done = map(cells, threads, |cell| self.run(*cell)).into_iter();
        done.map(|(cell, outcome)| outcome.map(|outcome| (cell, outcome)))
            .collect()
    }

    /// Finds the highest of these utilisations at which each of these variants finishes in time,
    /// with a binary search. Returns all runs, and for each of them one with the web server alone.
    pub fn search(
        &self,
        variants: &[Variant],
        (overlaps, utilisations): (&[u64], &[u64]),
        threads: usize,
    ) -> Result<Grid> {
        let of = |(tasks, has_events): &Variant| {
            let row = |overlap: &u64| (*tasks, *has_events, *overlap);
            overlaps.iter().map(row).collect::<Vec<_>>()
        };
        let rows: Vec<(Tasks, bool, u64)> = variants.iter().flat_map(of).collect();
        let runs = map(&rows, threads, |(tasks, has_events, overlap)| {
            let mut runs = Vec::new();
            let _ = utilisations.partition_point(|utilisation| {
                let cell = (*tasks, *has_events, *overlap, *utilisation);
                let outcome = self.run(cell);
                let is_complete = outcome.as_ref().is_ok_and(|run| run.is_complete);
                runs.push(outcome.map(|outcome| (cell, outcome)));
                is_complete
            });
            runs
        });
        let runs = runs.into_iter().flat_map(|(_, runs)| runs);
        let mut grid: Grid = runs.collect::<Result<_>>()?;
        let mut alone: Vec<Cell> = grid
            .keys()
            .map(|(_, _, overlap, utilisation)| (Tasks::Nothing, false, *overlap, *utilisation))
            .collect();
        alone.sort_unstable();
        alone.dedup();
        grid.extend(self.all(&alone, threads)?);
        Ok(grid)
    }
}

fn load(overlap: u64, utilisation: u64) -> Load {
    Load {
        utilisation,
        overlap,
        picks: Picks::InRotation,
    }
}

/// Returns the highest utilisation at which the tasks finished in time; `None`: at none.
pub fn highest(grid: &Grid, variant: Variant, overlap: u64) -> Option<u64> {
    let of_row = |(cell, _): &(&Cell, &Outcome)| {
        let (tasks, has_events, at, _) = **cell;
        ((tasks, has_events), at) == (variant, overlap)
    };
    let runs = grid.iter().filter(of_row);
    let in_time = runs.filter(|(_, outcome)| outcome.is_complete);
    in_time
        .map(|((_, _, _, utilisation), _)| *utilisation)
        .max()
}

/// Returns the factor by which the tasks raised the 99th percentile of the web server's latencies
/// while they ran.
pub fn harm(grid: &Grid, cell: Cell) -> Option<f64> {
    let (_, _, overlap, utilisation) = cell;
    let with = grid.get(&cell)?;
    let alone = grid.get(&(Tasks::Nothing, false, overlap, utilisation))?;
    let until = with.maintenance_time;
    let (with, alone) = (with.p99(until)?, alone.p99(until)?);
    Some(with as f64 / alone.max(1) as f64)
}
