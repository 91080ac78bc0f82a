//! Estimates when a run ends, from the pace of its stages so far. The defragmenter calls this.
//!
//! Invariant: pure: time is an argument. Pauses do not count.

use super::DefragStage;

const STAGES: usize = 5;
const NS: f64 = 1e9;

/// Work of each stage, done or left, in the stage's own units.
pub type Amounts = [f64; STAGES];

/// See the module's head.
#[derive(Default)]
pub struct Outlook {
    last: Option<(usize, u64)>,
    spent_ns: Amounts,
    done: Amounts,
}

fn number(stage: DefragStage) -> usize {
    (stage as usize).min(STAGES - 1)
}

impl Outlook {
    /// A step of this stage begins.
    pub fn begin(&mut self, stage: DefragStage, now_ns: u64) {
        let stage = number(stage);
        if let Some((last, since_ns)) = self.last.replace((stage, now_ns))
            && let Some(spent_ns) = self.spent_ns.get_mut(last)
        {
            *spent_ns += now_ns.saturating_sub(since_ns) as f64;
        }
    }

    /// The step did this much.
    pub fn did(&mut self, stage: DefragStage, units: f64) {
        if let Some(done) = self.done.get_mut(number(stage)) {
            *done += units;
        }
    }

    /// Excludes the time until the next step.
    pub fn stop(&mut self) {
        self.last = None;
    }

    /// Returns the seconds for the work left; `None` while the pace of copying is unknown.
    pub fn seconds_for(&self, left: &Amounts) -> Option<f64> {
        let pace = |stage: DefragStage| {
            let (spent, done) = (
                self.spent_ns.get(number(stage))?,
                self.done.get(number(stage))?,
            );
            (*spent > 0.0 && *done > 0.0).then(|| spent / done)
        };
        let mut ns = 0.0;
        for (stage, left) in [
            DefragStage::Sizing,
            DefragStage::Examining,
            DefragStage::Estimating,
            DefragStage::Moving,
            DefragStage::Measuring,
        ]
        .into_iter()
        .zip(left)
        {
            let known = match stage {
                // Measuring reads the same as examining.
                DefragStage::Measuring => pace(stage).or_else(|| pace(DefragStage::Examining)),
                _ => pace(stage),
            };
            ns += match known {
                Some(pace) => pace * left,
                None if stage == DefragStage::Moving && *left > 0.0 => return None,
                None => 0.0,
            };
        }
        Some(ns / NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DefragStage::{Examining, Moving};

    #[test]
    fn each_stage_has_its_own_pace_and_pauses_do_not_count() {
        let mut outlook = Outlook::default();
        assert_eq!(outlook.seconds_for(&[0.0, 5.0, 0.0, 1.0, 0.0]), None);
        for second in 0..10u64 {
            outlook.begin(Examining, second * 1_000_000_000);
            outlook.did(Examining, 100.0);
        }
        outlook.begin(Moving, 10_000_000_000);
        outlook.did(Moving, 50.0);
        outlook.begin(Moving, 12_000_000_000);
        outlook.stop();
        outlook.begin(Moving, 9_000_000_000_000);
        let left = outlook.seconds_for(&[0.0, 200.0, 0.0, 25.0, 300.0]);
        // Two seconds, then one, then three at the pace of examining.
        assert!((left.expect("known") - 6.0).abs() < 1e-6, "{left:?}");
    }
}
