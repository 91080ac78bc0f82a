//! The explorer: runs a scenario once, and explores every position at which the power may fail with
//! many outcomes. Crash tests call this.
//!
//! Invariant: the result depends only on the scenario and the explorer's fields, except `threads`,
//! which changes only the duration.

use crate::block::Block;
use crate::crash::CrashPoint;
use crate::exploration::{Explorer, Failure, Report, Step, choose};
use crate::history::{History, Scenario};
use crate::image::Image;
use crate::pending::Walker;
use crate::record::Recording;
use crate::seed::Seed;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of parts of the work, whatever the number of threads.
const BLOCKS: usize = 16;
/// Number of states for each crash point; a smaller budget gives fewer crash points.
const STATES_PER_POINT: usize = 8;

impl Explorer {
    /// Explores a scenario of each seed, and power losses in some recoveries. Panics at a failure.
    /// Returns the number of states.
    pub fn explore_seeds<S: Scenario>(seeds: &[u64], scenario: impl Fn(u64) -> S) -> usize {
        let states = seeds.iter().map(|seed| {
            let explorer = Self {
                recovery_depth: 1,
                recovery_every: 12,
                recovery_states_max: 16,
                threads: 2,
                ..Self::new(*seed, 400)
            };
            let report = explorer.explore(&scenario(*seed));
            report.expect_none();
            report.states + report.recovery_states
        });
        states.sum()
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

    /// Repeats the power losses of a failure. Returns the last state, and the result of the check.
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

    /// Returns every position if the budget allows; else those beside a sync, and a sample of the
    /// others.
    fn points(&self, recording: &Recording, start: usize) -> Vec<usize> {
        let points_max = (self.states_max / STATES_PER_POINT).max(1);
        choose(recording, start, points_max, &mut Seed::new(self.seed))
    }
}
