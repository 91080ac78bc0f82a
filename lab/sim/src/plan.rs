//! Selects the pending changes that a crash keeps: one small value names one outcome. `crash` turns
//! plans into states; the explorer chooses them.
//!
//! Invariant: a plan and a crash point determine the state, so the reported plan reproduces a
//! failure.

use crate::seed::Seed;

/// The way in which a write is torn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tear {
    /// Only its first sectors, this many.
    Cut(u64),
    /// A random subset of its sectors, and the file's length with or without it.
    Sectors(u64),
    /// Only the file's new length: the added part reads as zeroes.
    Zeroes,
}

/// Outcome of the changes beside a torn one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rest {
    /// Earlier ones survive, later ones are lost: the disk worked in order.
    Earlier,
    /// All others survive: the disk did this one last.
    Others,
}

/// The pending changes that a crash keeps. Numbers count pending changes, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plan {
    /// Nothing survives.
    Nothing,
    /// Everything survives.
    Everything,
    /// The first ones survive, this many.
    Prefix(usize),
    /// All but this one survive.
    Without(usize),
    /// All but these two survive.
    WithoutPair(usize, usize),
    /// Only this one survives.
    Only(usize),
    /// All names survive, no bytes and no lengths.
    NamesOnly,
    /// All names and lengths survive; new bytes are zero.
    NamesAndZeroes,
    /// All bytes survive, no names.
    BytesOnly,
    /// A write is torn.
    Torn {
        /// Number of the write.
        unit: usize,
        /// The way in which it is torn.
        tear: Tear,
        /// The others.
        rest: Rest,
    },
    /// Each survives, tears or is lost as the seed decides.
    Random(u64),
}

/// Outcome of one change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Lost,
    Whole,
    Torn(Tear),
}

/// The properties of a pending change that a plan needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) is_name: bool,
    /// Sectors of a write; 0 for other changes.
    pub(crate) sectors: u64,
}

impl Plan {
    /// Returns the outcome of each change.
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

    /// Returns the plans for every crash point, at most `quota`, the most informative first. Pairs,
    /// and plans beyond the quota, are sampled. `window`: the first change that is singled out;
    /// older ones are lost or kept together.
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
        // Singles get the rest less a quarter, which is left to the random states that follow.
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
