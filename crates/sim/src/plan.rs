//! Which of the pending changes a crash keeps: one small value names one outcome.
//!
//! Invariant: a plan and a crash point determine the state, so a failure is reproduced from the
//! plan that it reports. Called by `crash`, which turns plans into states, and by the explorer,
//! which chooses them.

use crate::seed::Seed;

/// How a write is torn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tear {
    /// Only its first so many sectors.
    Cut(u64),
    /// A random subset of its sectors, and the file's length with or without it.
    Sectors(u64),
    /// Only the file's new length: what it added reads as zeroes.
    Zeroes,
}

/// What becomes of the changes beside a torn one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rest {
    /// Earlier ones survive, later ones are lost: the disk worked in order.
    Earlier,
    /// All others survive: the disk did this one last.
    Others,
}

/// What a crash keeps of the pending changes. Numbers count pending changes, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plan {
    /// Nothing survives.
    Nothing,
    /// Everything survives.
    Everything,
    /// The first so many survive.
    Prefix(usize),
    /// All but this one survive.
    Without(usize),
    /// All but these two survive.
    WithoutPair(usize, usize),
    /// This one alone survives.
    Only(usize),
    /// All names survive, no bytes and no lengths.
    NamesOnly,
    /// All names and lengths survive; new bytes are zero.
    NamesAndZeroes,
    /// All bytes survive, no names.
    BytesOnly,
    /// A write is torn.
    Torn {
        /// Which.
        unit: usize,
        /// How.
        tear: Tear,
        /// The others.
        rest: Rest,
    },
    /// Each survives, tears or is lost as the seed says.
    Random(u64),
}

/// What becomes of one change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Lost,
    Whole,
    Torn(Tear),
}

/// What a plan needs to know of one pending change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) is_name: bool,
    /// Sectors of a write; 0 for all else.
    pub(crate) sectors: u64,
}

impl Plan {
    /// The outcome of each change.
    pub(crate) fn outcomes(self, shapes: &[Shape]) -> Vec<Outcome> {
        if let Self::Random(seed) = self {
            return random(seed, shapes);
        }
        let outcome = |(at, shape): (usize, &Shape)| match self {
            Self::Nothing => Outcome::Lost,
            Self::Everything | Self::Random(_) => Outcome::Whole,
            Self::Prefix(count) => whole(at < count),
            Self::Without(one) => whole(at != one),
            Self::WithoutPair(one, other) => whole(at != one && at != other),
            Self::Only(one) => whole(at == one),
            Self::NamesOnly => whole(shape.is_name),
            Self::NamesAndZeroes if shape.is_name => Outcome::Whole,
            Self::NamesAndZeroes => Outcome::Torn(Tear::Zeroes),
            Self::BytesOnly => whole(!shape.is_name),
            Self::Torn { unit, tear, .. } if at == unit => Outcome::Torn(tear),
            Self::Torn { unit, rest, .. } => whole(at < unit || rest == Rest::Others),
        };
        shapes.iter().enumerate().map(outcome).collect()
    }

    /// The plans that every crash point deserves, at most `quota`; the most telling ones first.
    /// Pairs, and whatever else exceeds the quota, are a sample. `window` is the first change that
    /// is singled out; older ones are lost or kept together.
    pub(crate) fn systematic(
        shapes: &[Shape],
        window: usize,
        quota: usize,
        seed: &mut Seed,
    ) -> Vec<Self> {
        let mut plans = vec![Self::Everything];
        if shapes.is_empty() {
            return plans;
        }
        plans.push(Self::Nothing);
        if shapes.iter().any(|shape| shape.is_name) && shapes.iter().any(|shape| !shape.is_name) {
            plans.extend([Self::NamesOnly, Self::NamesAndZeroes, Self::BytesOnly]);
        }
        let recent = window..shapes.len();
        let mut singles = Vec::new();
        for unit in recent.clone() {
            singles.extend([Self::Prefix(unit), Self::Without(unit), Self::Only(unit)]);
            for tear in tears(shapes[unit], seed) {
                singles.push(Self::Torn {
                    unit,
                    tear,
                    rest: Rest::Earlier,
                });
                singles.push(Self::Torn {
                    unit,
                    tear,
                    rest: Rest::Others,
                });
            }
        }
        let mut pairs = Vec::new();
        for one in recent {
            pairs.extend((one + 1..shapes.len()).map(|other| Self::WithoutPair(one, other)));
        }
        // Singles get what is left but a quarter; the random states that follow get that.
        let room = quota.saturating_sub(plans.len());
        sample(&mut singles, room - room / 4, seed);
        plans.append(&mut singles);
        sample(&mut pairs, quota.saturating_sub(plans.len()) / 2, seed);
        plans.append(&mut pairs);
        plans.truncate(quota);
        plans
    }
}

fn whole(survives: bool) -> Outcome {
    if survives {
        Outcome::Whole
    } else {
        Outcome::Lost
    }
}

/// First, last and random cut, a random subset of sectors, and length without bytes.
fn tears(shape: Shape, seed: &mut Seed) -> Vec<Tear> {
    let mut tears = Vec::new();
    if shape.sectors > 0 {
        tears.push(Tear::Zeroes);
    }
    if shape.sectors > 1 {
        tears.extend([Tear::Cut(1), Tear::Sectors(seed.draw())]);
    }
    if shape.sectors > 2 {
        tears.push(Tear::Cut(shape.sectors - 1));
    }
    if shape.sectors > 3 {
        tears.push(Tear::Cut(2 + seed.below(shape.sectors - 3)));
    }
    tears
}

fn sample(plans: &mut Vec<Plan>, count: usize, seed: &mut Seed) {
    if plans.len() > count {
        seed.shuffle(plans);
        plans.truncate(count);
    }
}

fn random(seed: u64, shapes: &[Shape]) -> Vec<Outcome> {
    let mut seed = Seed::new(seed);
    // Few, half or most survive: each finds other mistakes.
    let keeps = [32, 128, 224][seed.below(3) as usize];
    let outcome = |shape: &Shape| {
        if !seed.chance(keeps) {
            return Outcome::Lost;
        }
        if shape.sectors == 0 || !seed.chance(48) {
            return Outcome::Whole;
        }
        Outcome::Torn(match seed.below(3) {
            0 => Tear::Zeroes,
            1 => Tear::Cut(1 + seed.below(shape.sectors)),
            _ => Tear::Sectors(seed.draw()),
        })
    };
    shapes.iter().map(outcome).collect()
}

#[cfg(test)]
mod tests;
