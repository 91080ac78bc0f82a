//! One part of an exploration: consecutive crash points, explored on one thread. `explore` calls
//! this.
//!
//! Invariant: a block shares nothing with other blocks, so their order does not matter.

use crate::crash::CrashPoint;
use crate::disk::SimDisk;
use crate::exploration::{Explorer, Found, Report, Step, choose};
use crate::history::{Expected, History, Scenario};
use crate::pending::Walker;
use crate::plan::Plan;
use crate::record::Recording;
use crate::seed::{Seed, mix};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Number of consecutive known random outcomes after which a crash point is exhausted.
const DUPLICATES_MAX: usize = 24;

/// One part of an exploration.
pub(crate) struct Block<'a, S: Scenario> {
    explorer: &'a Explorer,
    scenario: &'a S,
    history: &'a History<S::Op>,
    /// Checked states, each combined with its expectation.
    seen: HashSet<u64>,
    pub(crate) report: Report,
}

/// The expectation at a crash point, and the power losses before it.
struct Context<'c, S: Scenario> {
    key: u64,
    expected: &'c Expected<S>,
    before: &'c [Step],
}

impl<'a, S: Scenario> Block<'a, S> {
    pub(crate) fn new(
        explorer: &'a Explorer,
        scenario: &'a S,
        history: &'a History<S::Op>,
    ) -> Self {
        Self {
            explorer,
            scenario,
            history,
            seen: HashSet::new(),
            report: Report::default(),
        }
    }

    /// Explores crash points of the history itself.
    pub(crate) fn history(&mut self, recording: &Recording, points: &[usize], budget: usize) {
        let mut walker = Walker::new(recording);
        let mut known: Option<(u64, Expected<S>)> = None;
        for (done, position) in points.iter().enumerate() {
            let left = budget.saturating_sub(self.report.states);
            if left == 0 || self.is_over() {
                return;
            }
            walker.advance(*position);
            let key = self.history.key(*position);
            if known.as_ref().is_none_or(|(old, _)| *old != key) {
                known = Some((key, self.history.expected(self.scenario, *position)));
            }
            let Some((_, expected)) = &known else { return };
            self.report.points += 1;
            let quota = (left / (points.len() - done)).max(2).min(left);
            self.point(
                &walker,
                quota,
                &Context {
                    key,
                    expected,
                    before: &[],
                },
            );
        }
    }

    /// Explores crash points of a recovery.
    fn recovery(&mut self, disk: &SimDisk, context: &Context<S>) {
        let recording = disk.recording();
        let states_max = self.explorer.recovery_states_max;
        let mut seed = Seed::new(self.explorer.seed).part(recording.log.len() as u64);
        let points = choose(&recording, 1, (states_max / 4).max(1), &mut seed);
        let mut walker = Walker::new(&recording);
        let start = self.report.recovery_states;
        for (done, position) in points.iter().enumerate() {
            let left = (start + states_max).saturating_sub(self.report.recovery_states);
            if left == 0 || self.is_over() {
                return;
            }
            walker.advance(*position);
            let quota = (left / (points.len() - done)).max(2).min(left);
            self.point(&walker, quota, context);
        }
    }

    /// Explores the outcomes of a power loss at one position.
    fn point(&mut self, walker: &Walker, quota: usize, context: &Context<S>) {
        let point = CrashPoint::new(walker);
        self.report.pending_max = self.report.pending_max.max(point.pending());
        let mut seed = Seed::new(self.explorer.seed).part(walker.position() as u64);
        let mut checked = 0;
        for plan in point.plans(quota, &mut seed) {
            checked += usize::from(self.state(walker, &point, plan, context));
            if self.is_over() {
                return;
            }
        }
        let mut duplicates = 0;
        while point.pending() > 1 && checked < quota && duplicates < DUPLICATES_MAX {
            if self.state(walker, &point, Plan::Random(seed.draw()), context) {
                checked += 1;
                duplicates = 0;
            } else {
                duplicates += 1;
            }
            if self.is_over() {
                return;
            }
        }
    }

    /// Checks one outcome; returns false if it was known.
    fn state(
        &mut self,
        walker: &Walker,
        point: &CrashPoint,
        plan: Plan,
        context: &Context<S>,
    ) -> bool {
        let image = point.state(plan);
        if !self.seen.insert(mix(context.key, image.hash())) {
            self.report.duplicates += 1;
            return false;
        }
        let depth = context.before.len();
        if depth == 0 {
            self.report.states += 1;
        } else {
            self.report.recovery_states += 1;
        }
        let number = self.report.states + self.report.recovery_states;
        let follow = depth < self.explorer.recovery_depth as usize
            && number.is_multiple_of(self.explorer.recovery_every.max(1));
        let disk = self.explorer.disk(image, follow);
        let mut steps = context.before.to_vec();
        steps.push(Step {
            position: walker.position(),
            plan,
        });
        if let Err(message) = self.check(&disk, context.expected) {
            let at = walker.describe(walker.position());
            let failure = self
                .explorer
                .failure(&steps, point, Found { at, plan, message });
            self.report.failures.push(failure);
        } else if follow {
            self.recovery(
                &disk,
                &Context {
                    before: &steps,
                    ..*context
                },
            );
        }
        true
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<S>) -> Result<(), String> {
        let check = AssertUnwindSafe(|| self.scenario.check(disk, expected));
        catch_unwind(check).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("panicked: {}", text.unwrap_or("without words")))
        })
    }

    fn is_over(&self) -> bool {
        self.report.failures.len() >= self.explorer.failures_max
    }
}
