//! Applies advice within bounds, and takes it back: `policy set auto`. The server calls this with
//! the tier's evidence.
//!
//! Invariant: pure; time is an argument. The policy of the operator is the base: its rules and its
//! settings of memory stay. A change that serves the load worse than the settings before it is
//! taken back after one period, and the next change waits longer.

use crate::advice::{Advice, Bounds, GAIN_MIN, SAMPLED_MIN, advise};
use crate::evidence::Evidence;
use crate::policy::Policy;
use crate::settings::{CLASSES, ClassSettings};
use std::sync::Arc;
use units::UnixNanos;

/// Loss from which a change is taken back.
const LOSS_MAX: f64 = 0.05;
/// Longest wait after changes that were taken back, in periods.
const WAIT_MAX: u32 = 16;

/// Result of a step.
#[derive(Clone, PartialEq, Debug)]
pub enum Tuned {
    /// Too little was asked for since the last decision.
    TooEarly,
    /// The settings stay.
    Kept,
    /// These settings are in force from now on.
    Changed([ClassSettings; CLASSES]),
    /// The last change served worse: the settings before it are in force again.
    TakenBack([ClassSettings; CLASSES]),
}

/// A change that is being watched.
struct Trial {
    before: [ClassSettings; CLASSES],
    /// Hits an access before it, by class.
    rates: [Option<f64>; CLASSES],
}

/// Record of the changes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// When it began.
    pub since: UnixNanos,
    /// When the settings changed last.
    pub changed: Option<UnixNanos>,
    /// Changes, and those of them that were taken back.
    pub changes: (u64, u64),
    /// Hits an access, in hundredths: what the last decision measured, and what it expects.
    pub hits_percent: Option<(f64, f64)>,
    /// Time from one decision to the next, nanoseconds.
    pub period_ns: u64,
}

/// The state of `policy set auto`. See the module's head.
pub struct Tuner {
    policy: Arc<Policy>,
    settings: [ClassSettings; CLASSES],
    trial: Option<Trial>,
    decided: UnixNanos,
    /// Periods to wait after the last change that was taken back, and how many have passed.
    wait: u32,
    waited: u32,
    tuning: Tuning,
}

impl Tuner {
    /// Begins with the settings of the policy.
    pub fn new(policy: Arc<Policy>, now: UnixNanos, period_ns: u64) -> Self {
        Self {
            settings: policy.all_fast_settings(),
            policy,
            trial: None,
            decided: now,
            wait: 0,
            waited: 0,
            tuning: Tuning {
                since: now,
                changed: None,
                changes: (0, 0),
                hits_percent: None,
                period_ns,
            },
        }
    }

    /// Returns what it has done.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Returns the settings of the fast tier that are in force.
    pub fn settings(&self) -> &[ClassSettings; CLASSES] {
        &self.settings
    }

    /// Returns true if a period has passed, or the clock went back.
    pub fn is_due(&self, now: UnixNanos) -> bool {
        let passed = now.0.saturating_sub(self.decided.0);
        u64::try_from(passed).map_or(true, |passed| passed >= self.tuning.period_ns)
    }

    /// Decides, if a period has passed and enough was asked for in it. Unless the result is
    /// [`Tuned::TooEarly`], the caller begins to count recent accesses anew.
    pub fn step(&mut self, evidence: &Evidence, now: UnixNanos) -> Tuned {
        if now < self.decided {
            // Another period begins.
            self.decided = now;
        }
        if !self.is_due(now) || evidence.recent() < SAMPLED_MIN as f64 {
            return Tuned::TooEarly;
        }
        self.decided = now;
        if let Some(trial) = self.trial.take() {
            if trial.is_worse(evidence) {
                self.settings = trial.before;
                self.wait = (self.wait * 2).clamp(1, WAIT_MAX);
                self.waited = 0;
                self.tuning.changed = Some(now);
                self.tuning.changes.1 += 1;
                self.tuning.hits_percent = None;
                return Tuned::TakenBack(self.settings);
            }
            self.wait /= 2;
        }
        if self.waited < self.wait {
            self.waited += 1;
            return Tuned::Kept;
        }
        let period_ns = self.tuning.period_ns;
        let bounds = Bounds::Cautious;
        let advice = advise(&self.policy, &self.settings, evidence, period_ns, bounds);
        let Ok(advice) = advice else {
            return Tuned::Kept;
        };
        self.tuning.hits_percent = Some(percents(&advice));
        if advice.gain() < GAIN_MIN || advice.settings == self.settings {
            return Tuned::Kept;
        }
        self.trial = Some(Trial {
            before: self.settings,
            rates: rates(evidence),
        });
        self.settings = advice.settings;
        self.tuning.changed = Some(now);
        self.tuning.changes.0 += 1;
        Tuned::Changed(self.settings)
    }
}

fn percents(advice: &Advice) -> (f64, f64) {
    let (now, expected) = advice.hits();
    let all = advice.accesses().max(1.0);
    (now / all * 100.0, expected / all * 100.0)
}

/// Returns hits an access in the last period, by class.
fn rates(evidence: &Evidence) -> [Option<f64>; CLASSES] {
    let mut rates = [None; CLASSES];
    for (rate, of) in rates.iter_mut().zip(&evidence.classes) {
        let (accesses, hits) = of.recent;
        *rate = (accesses > 0.0).then(|| hits / accesses);
    }
    rates
}

impl Trial {
    /// Returns true if the hits of the last period save less time than the settings before would
    /// have saved with the same accesses. Classes that were not used before prove nothing.
    fn is_worse(&self, evidence: &Evidence) -> bool {
        let (mut saved, mut before) = (0.0, 0.0);
        for (rate, of) in self.rates.iter().zip(&evidence.classes) {
            let Some(rate) = rate else { continue };
            let (accesses, hits) = of.recent;
            let saved_ns = evidence.saved_ns(of);
            saved += hits * saved_ns;
            before += accesses * rate * saved_ns;
        }
        saved < before * (1.0 - LOSS_MAX)
    }
}

#[cfg(test)]
mod tests;
