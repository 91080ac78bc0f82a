//! Advice on the shares of the fast tier, and `policy set auto`. Commands and the thread of the
//! tier call this.
//!
//! Invariant: the rules and the settings of memory stay those of the policy in force. What was
//! measured and what auto changed is lost with the server.

use super::classes::ServedClasses;
use classes::{Advice, Bounds, GAIN_MIN, Policy, TooLittle, Tuned, Tuner, Tuning, advise};
use ssd_tier::Tier;
use std::fmt;
use std::sync::Arc;
use units::UnixNanos;

/// Cause why there is no advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAdvice {
    /// No policy is in force, so all is one class.
    NoPolicy,
    /// There is nothing to divide.
    NoTier,
    /// Clients asked for too little.
    TooLittle(TooLittle),
}

impl fmt::Display for NoAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicy => f.write_str(
                "no policy is in force, so all requests are one class: set one first, such as \
                 quintet policy set adaptive",
            ),
            Self::NoTier => f.write_str("this server has no fast tier: serve with --fast"),
            Self::TooLittle(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NoAdvice {}

/// Advice, and the policy to which it belongs.
pub struct Advised {
    /// Name of the policy.
    pub name: String,
    /// The policy with the advised settings.
    pub policy: Policy,
    /// Its expected effect.
    pub advice: Advice,
    /// False if the settings in force are as good as any: then the policy has those.
    pub is_better: bool,
}

impl ServedClasses {
    fn tier(&self) -> Option<&Arc<Tier>> {
        self.pool.fast_tier()
    }

    /// Returns better settings of the fast tier for the policy in force, if clients asked for
    /// enough in so much time.
    pub fn advise(&self, observed_ns_min: u64) -> Result<Advised, NoAdvice> {
        let in_force = self.policy().ok_or(NoAdvice::NoPolicy)?;
        let tier = self.tier().ok_or(NoAdvice::NoTier)?;
        let policy = &in_force.policy;
        let settings = self.auto.lock().as_ref().map(|tuner| *tuner.settings());
        let settings = settings.unwrap_or_else(|| policy.all_fast_settings());
        let (evidence, bounds) = (tier.evidence(false), Bounds::Free);
        let advice = advise(policy, &settings, &evidence, observed_ns_min, bounds);
        let advice = advice.map_err(NoAdvice::TooLittle)?;
        let mut advised = Policy::clone(policy);
        let is_better = advice.gain() >= GAIN_MIN;
        for of in &advice.classes {
            let (now, then) = of.settings;
            advised.set_fast(of.class, if is_better { then } else { now });
        }
        Ok(Advised {
            name: in_force.name,
            policy: advised,
            advice,
            is_better,
        })
    }

    /// From now on the server divides the fast tier itself, beginning with the policy in force.
    pub fn set_auto(&self, now: UnixNanos, period_ns: u64) -> Result<(), NoAdvice> {
        self.tier().ok_or(NoAdvice::NoTier)?;
        let in_force = self.policy.lock();
        let policy = in_force.as_ref().ok_or(NoAdvice::NoPolicy)?;
        let policy = Arc::clone(&policy.policy);
        self.obey_in_tier(&policy.all_fast_settings());
        *self.auto.lock() = Some(Tuner::new(policy, now, period_ns));
        Ok(())
    }

    /// Returns what auto did; `None` unless it is in force.
    pub fn tuning(&self) -> Option<Tuning> {
        self.auto.lock().as_ref().map(Tuner::tuning)
    }

    /// Decides again, if auto is in force and it is time. Returns what was changed, for the log.
    pub fn tune(&self, now: UnixNanos) -> Option<String> {
        // A policy that is set meanwhile waits: its settings come last.
        let _in_force = self.policy.lock();
        let mut auto = self.auto.lock();
        let tuner = auto.as_mut().filter(|tuner| tuner.is_due(now))?;
        let tier = self.tier()?;
        let tuned = tuner.step(&tier.evidence(false), now);
        if tuned != Tuned::TooEarly {
            tier.evidence(true);
        }
        let (settings, words) = match &tuned {
            Tuned::TooEarly | Tuned::Kept => return None,
            Tuned::Changed(settings) => (settings, expectation(&tuner.tuning())),
            Tuned::TakenBack(settings) => {
                let words =
                    "the last change served worse: the settings before it are in force again";
                (settings, words.to_owned())
            }
        };
        self.obey_in_tier(settings);
        Some(format!("policy auto: {words}; see quintet policy status"))
    }
}

/// Says what the last decision expects.
pub fn expectation(tuning: &Tuning) -> String {
    match tuning.hits_percent {
        None => "nothing was decided yet".to_owned(),
        Some((now, then)) => {
            format!("expects hits in {then:.1} % of the reads, measured {now:.1} % before")
        }
    }
}
