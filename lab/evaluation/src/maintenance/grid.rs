//! Runs all cells of an experiment independently, several at a time.
//!
//! The page calls this; so does a small test.
//! Invariant: results do not depend on the number of threads.

use super::settings::{Kind, Load, Order, Picks, Settings, THREE};
use super::world::{DueOutcome, Outcome, World};
use crate::disk::Ns;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The published overlaps, percent.
pub const OVERLAPS: [u64; 4] = [25, 50, 75, 100];
/// Utilisations, percent.
pub const UTILISATIONS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// Tasks beside the web server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tasks {
    /// None: the base of the web server's latencies.
    Nothing,
    /// The backup.
    Backup,
    /// The backup for a receiver that wants files nearly in order.
    HostBackup,
    /// Scrub, backup and defragmentation.
    Three,
}

impl Tasks {
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Nothing => &[],
            Self::Backup => &[Kind::Backup],
            Self::HostBackup => &[Kind::HostBackup],
            Self::Three => &THREE,
        }
    }
}

/// Tasks, and whether they receive page events.
pub type Variant = (Tasks, bool);

/// A run: variant, overlap, utilisation.
pub type Cell = (Variant, u64, u64);

/// Results by run.
pub type Grid = BTreeMap<Cell, Outcome>;

/// Runs all cells of these variants.
pub fn run(settings: &Settings, picks: Picks, variants: &[Variant], threads: usize) -> Grid {
    let experiment = Experiment::new(settings, picks, threads);
    let mut cells: Vec<Cell> = Vec::new();
    for variant in variants {
        for overlap in OVERLAPS {
            cells.extend(UTILISATIONS.map(|utilisation| (*variant, overlap, utilisation)));
        }
    }
    map(&cells, threads, |cell| experiment.run(*cell))
        .into_iter()
        .collect()
}

/// Finds the highest utilisation at which the tasks finish in time, by variant and overlap, with a
/// binary search.
pub fn search(
    settings: &Settings,
    picks: Picks,
    variants: &[(Variant, u64)],
    threads: usize,
) -> BTreeMap<(Variant, u64), Option<u64>> {
    let experiment = Experiment::new(settings, picks, threads);
    let halve = |(variant, overlap): &(Variant, u64)| {
        let is_late = |utilisation: &u64| {
            !experiment
                .run((*variant, *overlap, *utilisation))
                .is_complete
        };
        let in_time = UTILISATIONS.partition_point(|utilisation| !is_late(utilisation));
        UTILISATIONS.into_iter().take(in_time).next_back()
    };
    map(variants, threads, halve).into_iter().collect()
}

struct Experiment<'a> {
    settings: &'a Settings,
    picks: Picks,
    /// Disk time of a web server's request, by overlap.
    costs: BTreeMap<u64, Ns>,
}

impl<'a> Experiment<'a> {
    fn new(settings: &'a Settings, picks: Picks, threads: usize) -> Self {
        let cost = |overlap: &u64| {
            let load = Load {
                utilisation: 100,
                overlap: *overlap,
                picks,
            };
            World::new(*settings, load, 0).web_cost()
        };
        let costs = map(&OVERLAPS, threads, cost).into_iter().collect();
        Self {
            settings,
            picks,
            costs,
        }
    }

    fn run(&self, ((tasks, has_events), overlap, utilisation): Cell) -> Outcome {
        let world = self.world(overlap, utilisation);
        world.experiment(tasks.kinds(), has_events)
    }

    fn world(&self, overlap: u64, utilisation: u64) -> World {
        let load = Load {
            utilisation,
            overlap,
            picks: self.picks,
        };
        let busy = self.costs.get(&overlap).copied().unwrap_or(1);
        World::new(*self.settings, load, busy)
    }
}

/// Returns the highest utilisation up to which the tasks finish in time at every step; `None`: at
/// no utilisation.
pub fn highest(grid: &Grid, variant: Variant, overlap: u64) -> Option<u64> {
    let is_complete = |utilisation: &u64| {
        let cell = grid.get(&(variant, overlap, *utilisation));
        cell.is_some_and(|outcome| outcome.is_complete)
    };
    UTILISATIONS.into_iter().take_while(is_complete).last()
}

/// A run with deadlines: overlap, utilisation, number of tasks, whether they share.
pub type DueCell = (u64, u64, usize, bool);

/// Results of runs with deadlines.
pub type DueGrid = BTreeMap<DueCell, DueOutcome>;

/// The overlaps and utilisations of runs with deadlines, percent.
pub const DUE_OVERLAPS: [u64; 2] = [25, 75];
/// See [`DUE_OVERLAPS`].
pub const DUE_UTILISATIONS: [u64; 4] = [0, 20, 40, 60];

/// The tasks of runs with deadlines, each with its part of twice the published time. A run with
/// fewer tasks has the first ones.
pub const DUE_TASKS: [(Kind, u64, u64); 4] = [
    (Kind::Backup, 1, 2),
    (Kind::Scrub, 1, 1),
    (Kind::Collect, 1, 3),
    (Kind::Defragment, 2, 3),
];

/// Runs tasks with deadlines by the product's scheduler. Without tasks: the web server alone.
pub fn run_due(settings: &Settings, threads: usize) -> DueGrid {
    let settings = Settings {
        order: Order::Product,
        fragmented_percent: 20,
        ..*settings
    };
    let experiment = Experiment::new(&settings, Picks::InRotation, threads);
    let time = 2 * settings.run;
    let tasks = DUE_TASKS.map(|(kind, part, of)| (kind, time / of * part));
    let mut cells: Vec<DueCell> = Vec::new();
    for overlap in DUE_OVERLAPS {
        for utilisation in DUE_UTILISATIONS {
            cells.push((overlap, utilisation, 0, false));
            for count in 2..=tasks.len() {
                cells.extend([false, true].map(|shares| (overlap, utilisation, count, shares)));
            }
        }
    }
    let one = |(overlap, utilisation, count, shares): &DueCell| {
        let world = experiment.world(*overlap, *utilisation);
        let tasks = tasks.get(..*count).unwrap_or_default();
        world.with_deadlines(tasks, *shares, time)
    };
    map(&cells, threads, one).into_iter().collect()
}

pub(crate) fn map<T: Copy + Ord + Send + Sync, R: Send>(
    jobs: &[T],
    threads: usize,
    act: impl Fn(&T) -> R + Sync,
) -> Vec<(T, R)> {
    let next = Mutex::new(jobs.iter());
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let job = next.lock().next();
                    let Some(job) = job else { break };
                    let result = act(job);
                    done.lock().insert(*job, result);
                }
            });
        }
    });
    done.into_inner().into_iter().collect()
}
