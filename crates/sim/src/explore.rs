//! The explorer: one run of a scenario, every place at which the power may fail, many outcomes.
//!
//! Invariant: the result depends on the scenario and the explorer's fields only, `threads`
//! excepted, which changes nothing but the time it takes. Called by crash tests.

use crate::block::{Block, Found};
use crate::crash::CrashPoint;
use crate::disk::SimDisk;
use crate::history::{History, Scenario};
use crate::image::Image;
use crate::pending::Walker;
use crate::plan::Plan;
use crate::record::Recording;
use crate::seed::Seed;
use media::Barrier;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts that the work is cut into, whatever the number of threads.
const BLOCKS: usize = 16;
/// States that a crash point should get; with a smaller budget there are fewer crash points.
const STATES_PER_POINT: usize = 8;

/// What to explore and how far. The fields are the whole configuration.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// Chooses crash points and outcomes where there are too many for all.
    pub seed: u64,
    /// States to check, those inside recovery not counted.
    pub states_max: usize,
    /// Power losses during recovery, in a row: 0 explores none.
    pub recovery_depth: u32,
    /// Each so-many-th state has its recovery explored.
    pub recovery_every: usize,
    /// States to check inside one recovery.
    pub recovery_states_max: usize,
    /// Threads; 0 counts as 1.
    pub threads: usize,
    /// Stops after so many failures.
    pub failures_max: usize,
    /// The barrier that is left out: a canary.
    pub without: Option<Barrier>,
}

/// One power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Operations of the log that came before it.
    pub position: usize,
    /// What it kept of the pending ones.
    pub plan: Plan,
}

/// A state that the scenario's check refused.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The explorer's seed.
    pub seed: u64,
    /// The power losses that lead there: the first in the history, others in recoveries. Give them
    /// to [`Explorer::replay`].
    pub steps: Vec<Step>,
    /// The operation that did not happen any more.
    pub at: String,
    /// The pending operations and what became of each.
    pub pending: Vec<String>,
    /// What the check said.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, steps {:?}", self.seed, self.steps)?;
        writeln!(f, "  before: {}", self.at)?;
        for line in &self.pending {
            writeln!(f, "  {line}")?;
        }
        write!(f, "  {}", self.message)
    }
}

/// What was explored and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Crash points.
    pub points: usize,
    /// Different states checked.
    pub states: usize,
    /// Different states checked that come from a power loss during recovery.
    pub recovery_states: usize,
    /// States built and not checked, because the same state was checked with the same expectation.
    pub duplicates: usize,
    /// Most pending operations at one crash point.
    pub pending_max: usize,
    /// The first failures.
    pub failures: Vec<Failure>,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.points += other.points;
        self.states += other.states;
        self.recovery_states += other.recovery_states;
        self.duplicates += other.duplicates;
        self.pending_max = self.pending_max.max(other.pending_max);
        self.failures.extend(other.failures);
    }
}

impl Report {
    /// Panics with the first failures, when there are any.
    pub fn expect_none(&self) {
        let texts: Vec<String> = self.failures.iter().map(Failure::to_string).collect();
        assert!(
            texts.is_empty(),
            "{} failures:\n{}",
            texts.len(),
            texts.join("\n")
        );
    }
}

impl Explorer {
    /// Without crashes in recovery, on one thread.
    pub fn new(seed: u64, states_max: usize) -> Self {
        Self {
            seed,
            states_max,
            recovery_depth: 0,
            recovery_every: 16,
            recovery_states_max: 64,
            threads: 1,
            failures_max: 3,
            without: None,
        }
    }

    /// Runs the scenario once and checks the states that a power loss could leave behind.
    pub fn explore<S: Scenario>(&self, scenario: &S) -> Report {
        let (recording, history) = match self.record(scenario) {
            Ok(run) => run,
            Err(failure) => {
                return Report {
                    failures: vec![failure],
                    ..Report::default()
                };
            }
        };
        let points = self.points(&recording, history.start());
        let length = points.len().div_ceil(BLOCKS).max(1);
        let blocks: Vec<&[usize]> = points.chunks(length).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut reports = Vec::new();
            while let Some(points) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let number = points.first().copied().unwrap_or(0);
                let budget = self.states_max * points.len() / length.max(1) / blocks.len().max(1);
                let mut block = Block::new(self, scenario, &history);
                block.history(&recording, points, budget);
                reports.push((number, block.report));
            }
            reports
        };
        let mut reports: Vec<(usize, Report)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            let mut reports = work();
            for thread in threads {
                reports.extend(
                    thread
                        .join()
                        .expect("checks are caught, nothing else panics"),
                );
            }
            reports
        });
        reports.sort_by_key(|(number, _)| *number);
        let mut whole = Report::default();
        for (_, report) in reports {
            whole += report;
        }
        whole.failures.truncate(self.failures_max);
        whole
    }

    /// Goes through the power losses of a failure again: the last state, and what the check says.
    pub fn replay<S: Scenario>(&self, scenario: &S, steps: &[Step]) -> (Image, Result<(), String>) {
        let (mut recording, history) = match self.record(scenario) {
            Ok(run) => run,
            Err(failure) => return (Image::new(), Err(failure.message)),
        };
        let mut last = (Image::new(), Err("there are no steps".to_owned()));
        let expected = steps
            .first()
            .map(|step| history.expected(scenario, step.position));
        for (step, expected) in steps.iter().zip(std::iter::repeat(&expected)) {
            let mut walker = Walker::new(&recording);
            walker.advance(step.position);
            let image = CrashPoint::new(&walker).state(step.plan);
            let disk = self.disk(image.clone(), true);
            let Some(expected) = expected else { break };
            last = (image, scenario.check(&disk, expected));
            recording = disk.recording();
        }
        last
    }

    /// The disk of a program that lacks what this explorer leaves out.
    pub(crate) fn disk(&self, image: Image, recording: bool) -> Arc<SimDisk> {
        let disk = if recording {
            SimDisk::on(image)
        } else {
            SimDisk::unrecorded(image)
        };
        match self.without {
            Some(point) => disk.without(point),
            None => disk,
        }
    }

    fn record<S: Scenario>(&self, scenario: &S) -> Result<(Recording, History<S::Op>), Failure> {
        let disk = self.disk(Image::new(), true);
        let history = History::new(Arc::clone(&disk));
        let result = scenario.run(&disk, &history);
        let recording = disk.recording();
        match result {
            Ok(()) => Ok((recording, history)),
            Err(message) => Err(Failure {
                seed: self.seed,
                steps: Vec::new(),
                at: "the history itself".to_owned(),
                pending: Vec::new(),
                message,
            }),
        }
    }

    /// Every place when the budget allows; else those beside a sync, and a sample of the others.
    fn points(&self, recording: &Recording, start: usize) -> Vec<usize> {
        let points_max = (self.states_max / STATES_PER_POINT).max(1);
        choose(recording, start, points_max, &mut Seed::new(self.seed))
    }

    pub(crate) fn failure(&self, steps: &[Step], point: &CrashPoint, found: Found) -> Failure {
        Failure {
            seed: self.seed,
            steps: steps.to_vec(),
            at: found.at,
            pending: point.describe(found.plan),
            message: found.message,
        }
    }
}

/// At most `count` places from `start` on, those immediately before and after a sync first.
pub(crate) fn choose(
    recording: &Recording,
    start: usize,
    count: usize,
    seed: &mut Seed,
) -> Vec<usize> {
    let beside_sync = |at: &usize| {
        let sync = |at: usize| {
            recording
                .log
                .get(at)
                .is_some_and(|entry| entry.sync().is_some())
        };
        sync(*at) || at.checked_sub(1).is_some_and(sync)
    };
    let (mut points, mut others): (Vec<usize>, Vec<usize>) =
        (start..=recording.log.len()).partition(beside_sync);
    seed.shuffle(&mut others);
    if points.len() > count {
        seed.shuffle(&mut points);
    }
    points.append(&mut others);
    points.truncate(count);
    points.sort_unstable();
    points
}
