//! Divides the fast tier among the classes so that hits save most device time: the authors' first
//! open question in Differentiated Storage Services (SOSP'11). `policy advise` prints the result,
//! [`crate::Tuner`] applies it.
//!
//! Each class has a curve of hits by space. Its upper hull falls into segments, and the steepest of
//! all classes come first until the space is used (Talus, HPCA'15, has the proof that hulls can be
//! treated so). A measured class that has fewer hits than its curve says at its present size keeps
//! that factor everywhere: the tier evicts whole blocks, the curve single chunks.
//!
//! Invariant: pure. Classes without evidence keep their settings, pinned classes stay pinned.
//! Memory is not touched.

use crate::evidence::{ClassEvidence, Evidence};
use crate::policy::Policy;
use crate::settings::{Admission, CLASSES, ClassSettings, Priority, Share};
use std::fmt;
use units::IoClass;

/// Fewest accesses in the sample from which advice is given.
pub const SAMPLED_MIN: u64 = 1000;
/// Least expected gain of saved time that is worth a change.
pub const GAIN_MIN: f64 = 0.03;
/// Fewest accesses of a class in the sample from which its settings change.
const CLASS_SAMPLED_MIN: u64 = 100;
/// Part of its accesses that a class must gain to be worth space.
const WORTH: f64 = 0.01;
/// A class whose chunks enter whatever the access pattern must have this part of hits: each entry
/// costs a write.
const ALWAYS_HITS: f64 = 0.25;
/// Part of its accesses that such a class gains by it.
const ALWAYS_GAINS: f64 = 0.10;
/// Limits of the factor between curve and tier.
const FACTOR: (f64, f64) = (0.4, 1.0);
/// Fewest hits by which the factor is known.
const FACTOR_HITS_MIN: f64 = 30.0;
/// First priorities of classes that enter always, and by their pattern; that of classes that gain
/// nothing, but stay.
const ALWAYS_FROM: u8 = 10;
const PATTERN_FROM: u8 = 130;
const WORTHLESS: u8 = 199;

const _: () = assert!(PATTERN_FROM as usize + CLASSES < WORTHLESS as usize);
const _: () = assert!(ALWAYS_FROM as usize + CLASSES < 128);

/// Limits of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounds {
    /// Everything: an operator reads it first.
    Free,
    /// No class loses more than half of its space, or goes below 1 %. A class whose allocation is
    /// 0.00 keeps that.
    Cautious,
}

/// Advice for a class.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassAdvice {
    /// The class.
    pub class: IoClass,
    /// How the tier treats it now, and should.
    pub settings: (ClassSettings, ClassSettings),
    /// Accesses in the time of [`Advice::window_ns`].
    pub accesses: f64,
    /// Hits among them: measured, and expected with the new settings.
    pub hits: (f64, f64),
    /// Device time that they save, nanoseconds.
    pub saved_ns: (f64, f64),
    /// False if there is too little evidence to change its settings.
    pub is_known: bool,
}

/// Advice for all classes of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// By class.
    pub classes: Vec<ClassAdvice>,
    /// Settings of the fast tier, by class.
    pub settings: [ClassSettings; CLASSES],
    /// Time for which the counts stand, nanoseconds.
    pub window_ns: u64,
    /// Accesses in the sample.
    pub sampled: u64,
    /// Time since the first access, nanoseconds.
    pub observed_ns: u64,
    /// Mean time of a read of the tier and of the pool, where measured, nanoseconds.
    pub times_ns: (Option<f64>, Option<f64>),
}

/// There is too little evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLittle {
    /// Accesses in the sample, and how many are needed.
    pub sampled: (u64, u64),
    /// Time of observation, and how much is needed, nanoseconds.
    pub observed_ns: (u64, u64),
}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns / 1_000_000_000;
        write!(
            f,
            "too little evidence: {} of {} sampled accesses of the fast tier, {} of {} s; let \
             clients go on",
            self.sampled.0,
            self.sampled.1,
            seconds(self.observed_ns.0),
            seconds(self.observed_ns.1)
        )
    }
}

impl std::error::Error for TooLittle {}

impl Advice {
    fn sum(&self, of: impl Fn(&ClassAdvice) -> f64) -> f64 {
        self.classes.iter().map(of).sum()
    }

    /// Returns all accesses.
    pub fn accesses(&self) -> f64 {
        self.sum(|of| of.accesses)
    }

    /// Returns the hits: measured, and expected.
    pub fn hits(&self) -> (f64, f64) {
        (self.sum(|of| of.hits.0), self.sum(|of| of.hits.1))
    }

    /// Returns the saved time: measured, and expected, nanoseconds.
    pub fn saved_ns(&self) -> (f64, f64) {
        (self.sum(|of| of.saved_ns.0), self.sum(|of| of.saved_ns.1))
    }

    /// Returns the expected gain of saved time as a part of what is saved now, at least of a
    /// hundredth of what could be saved.
    pub fn gain(&self) -> f64 {
        let (now, expected) = self.saved_ns();
        let per_hit = expected / self.hits().1.max(1.0);
        let least = self.accesses() * per_hit / 100.0;
        match now.max(least) {
            base if base > 0.0 => (expected - now) / base,
            _ => 0.0,
        }
    }

    /// Returns a time in the window as time a day.
    pub fn a_day(&self, of_window: f64) -> f64 {
        const DAY_NS: f64 = 86_400e9;
        match self.window_ns {
            0 => 0.0,
            window_ns => of_window * DAY_NS / window_ns as f64,
        }
    }
}

/// A class whose space is decided.
struct Candidate<'e> {
    class: IoClass,
    of: &'e ClassEvidence,
    before: ClassSettings,
    enters_always: bool,
    factor: f64,
    saved_ns: f64,
    floor: usize,
    space: usize,
}

impl Candidate<'_> {
    /// Returns the expected hits in so many hundredths.
    fn hits(&self, hundredths: f64) -> f64 {
        self.factor * hits_of(self.of, self.enters_always, hundredths)
    }

    fn gains(&self, room: usize) -> bool {
        self.hits(room as f64) > WORTH * self.of.accesses
    }

    /// Returns the segments of the upper hull of saved time from the floor to `room`: the gain of a
    /// hundredth, and their lengths. Each is less steep than the one before.
    fn segments(&self, room: usize) -> Vec<(f64, usize)> {
        let value = |at: usize| self.saved_ns * self.hits(at as f64);
        let mut hull = vec![(self.floor, value(self.floor))];
        for at in self.floor + 1..=room {
            let point = (at, value(at));
            while let [.., a, b] = hull.as_slice() {
                if slope(*a, *b) > slope(*b, point) {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        let pairs = hull.windows(2).filter_map(|pair| match pair {
            [a, b] => Some((slope(*a, *b), b.0 - a.0)),
            _ => None,
        });
        pairs.collect()
    }
}

fn slope(from: (usize, f64), to: (usize, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0).max(1) as f64
}

fn hits_of(of: &ClassEvidence, enters_always: bool, hundredths: f64) -> f64 {
    let by_pattern = of.by_pattern.hits(hundredths);
    match enters_always {
        true => by_pattern + of.otherwise.hits(hundredths),
        false => by_pattern,
    }
}

/// Returns by how much the tier falls short of the curve, where that is known.
fn factor_of(of: &ClassEvidence, admission: Admission) -> Option<f64> {
    let enters_always = admission == Admission::Always;
    let expected = hits_of(of, enters_always, of.held_hundredths);
    (expected >= FACTOR_HITS_MIN).then(|| (of.hits / expected).clamp(FACTOR.0, FACTOR.1))
}

/// Returns how the fast tier should treat the classes of a policy. `in_force` are its settings now,
/// which need not be the policy's.
pub fn advise(
    policy: &Policy,
    in_force: &[ClassSettings; CLASSES],
    evidence: &Evidence,
    observed_ns_min: u64,
    bounds: Bounds,
) -> Result<Advice, TooLittle> {
    let sampled = evidence.sampled();
    if sampled < SAMPLED_MIN || evidence.observed_ns < observed_ns_min {
        return Err(TooLittle {
            sampled: (sampled, SAMPLED_MIN),
            observed_ns: (evidence.observed_ns, observed_ns_min),
        });
    }
    let room = usize::from(evidence.room_hundredths);
    let mut candidates = candidates(policy, in_force, evidence, bounds);
    let spare = divide(&mut candidates, room);
    let settings = settings_of(&candidates, in_force, room, spare, bounds);
    let classes = policy.classes().filter_map(|(class, _)| {
        let of = evidence.of(class)?;
        let number = usize::from(class.0);
        let (before, after) = (*in_force.get(number)?, *settings.get(number)?);
        let candidate = candidates.iter().find(|one| one.class == class);
        let saved_ns = evidence.saved_ns(of);
        let expected = match candidate {
            Some(_) if after.share == Share::NONE => 0.0,
            Some(one) => one.hits(one.space as f64),
            None => of.hits,
        };
        Some(ClassAdvice {
            class,
            settings: (before, after),
            accesses: of.accesses,
            hits: (of.hits, expected),
            saved_ns: (of.hits * saved_ns, expected * saved_ns),
            is_known: candidate.is_some(),
        })
    });
    Ok(Advice {
        classes: classes.collect(),
        settings,
        window_ns: evidence.window_ns,
        sampled,
        observed_ns: evidence.observed_ns,
        times_ns: (evidence.tier_ns, evidence.pool_ns()),
    })
}

fn candidates<'e>(
    policy: &Policy,
    in_force: &[ClassSettings; CLASSES],
    evidence: &'e Evidence,
    bounds: Bounds,
) -> Vec<Candidate<'e>> {
    let before_of = |class: IoClass| in_force.get(usize::from(class.0)).copied();
    let factors = policy.classes().filter_map(|(class, _)| {
        let (of, before) = (evidence.of(class)?, before_of(class)?);
        Some((factor_of(of, before.admission())?, of.hits))
    });
    let (sum, weight) = factors.fold((0.0, 0.0), |(sum, all), (factor, weight)| {
        (sum + factor * weight, all + weight)
    });
    let common = if weight > 0.0 { sum / weight } else { FACTOR.1 };
    let candidate = |(class, _): (IoClass, &str)| {
        let (of, before) = (evidence.of(class)?, before_of(class)?);
        let keeps_out = bounds == Bounds::Cautious && before.share == Share::NONE;
        if of.sampled < CLASS_SAMPLED_MIN || keeps_out {
            return None;
        }
        let room = f64::from(evidence.room_hundredths);
        let all = hits_of(of, true, room);
        let is_worth_writes = all >= ALWAYS_HITS * of.accesses
            && of.otherwise.hits(room) >= ALWAYS_GAINS * of.accesses;
        let held = of.held_hundredths.max(0.0) as usize;
        Some(Candidate {
            class,
            of,
            before,
            enters_always: before.admission() == Admission::Always || is_worth_writes,
            factor: factor_of(of, before.admission()).unwrap_or(common),
            saved_ns: evidence.saved_ns(of),
            floor: match bounds {
                Bounds::Free => 0,
                Bounds::Cautious => held.div_ceil(2).max(1),
            },
            space: 0,
        })
    };
    policy.classes().filter_map(candidate).collect()
}

/// Gives each candidate its space. Returns the hundredths that nothing gains by.
fn divide(candidates: &mut [Candidate<'_>], room: usize) -> usize {
    let mut left = room;
    for candidate in &mut *candidates {
        candidate.floor = candidate.floor.min(left);
        candidate.space = candidate.floor;
        left -= candidate.floor;
    }
    let all = candidates.iter().enumerate();
    let segments = all.flat_map(|(nth, one)| {
        let of_one = one.segments(room).into_iter();
        of_one.map(move |(gain, len)| (gain, nth, len))
    });
    let mut segments: Vec<(f64, usize, usize)> = segments.collect();
    // Stable: the segments of a class stay in their order.
    segments.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (gain, nth, len) in segments {
        if gain <= 0.0 {
            break;
        }
        if let Some(candidate) = candidates.get_mut(nth) {
            let taken = len.min(left);
            candidate.space += taken;
            left -= taken;
        }
    }
    left
}

fn settings_of(
    candidates: &[Candidate<'_>],
    in_force: &[ClassSettings; CLASSES],
    room: usize,
    spare: usize,
    bounds: Bounds,
) -> [ClassSettings; CLASSES] {
    let mut settings = *in_force;
    let mut order: Vec<&Candidate<'_>> = candidates.iter().collect();
    let density =
        |one: &Candidate<'_>| one.saved_ns * one.hits(one.space as f64) / one.space.max(1) as f64;
    order.sort_by(|a, b| density(b).total_cmp(&density(a)));
    for (nth, one) in (0u8..).zip(order) {
        let gains = one.gains(room);
        let first = if one.enters_always {
            ALWAYS_FROM
        } else {
            PATTERN_FROM
        };
        let hundredths = match (gains, bounds) {
            (false, Bounds::Free) => 0,
            // Shares are rounded down to blocks, and what nothing gains by is for all.
            _ => one.space + spare + usize::from(gains),
        };
        let is_pinned = one.before.priority == Priority::Pinned;
        let share = u8::try_from(hundredths.min(100)).unwrap_or(100);
        let new = ClassSettings {
            priority: match (is_pinned, gains, bounds) {
                (true, ..) => Priority::Pinned,
                (_, true, _) => Priority::Evictable(first.saturating_add(nth)),
                (_, false, Bounds::Cautious) => Priority::Evictable(WORTHLESS),
                (_, false, Bounds::Free) => Priority::Evictable(u8::MAX),
            },
            share: Share::from_hundredths(share).unwrap_or(Share::ALL),
        };
        if let Some(of) = settings.get_mut(usize::from(one.class.0)) {
            *of = new;
        }
    }
    settings
}

#[cfg(test)]
mod tests;
