//! Evidence of how the fast tier serves each class, and would serve it with another share: what
//! `ssd_tier` measures, and [`crate::advise`] divides the tier by.
//!
//! Invariant: counts fade with use, so that they are of now; they say nothing of what was never
//! asked for. All of them are estimates from a sample.

use crate::settings::CLASSES;
use units::IoClass;

/// Longest curve, in hundredths of the data chunks' share: data may also have what other kinds do
/// not use.
pub const CURVE_BINS: usize = 200;

/// Hits that a class would have, by the space that it takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve([f32; CURVE_BINS]);

impl Default for Curve {
    fn default() -> Self {
        Self([0.0; CURVE_BINS])
    }
}

impl Curve {
    /// Adds hits that need more than `bin` hundredths of space. Those that need more than the
    /// curve has are none.
    pub fn add(&mut self, bin: usize, hits: f32) {
        if let Some(of_bin) = self.0.get_mut(bin) {
            *of_bin += hits;
        }
    }

    /// Halves all hits.
    pub fn halve(&mut self) {
        self.0.iter_mut().for_each(|hits| *hits /= 2.0);
    }

    /// Returns the hits in so many hundredths of space, between two of them in proportion.
    pub fn hits(&self, hundredths: f64) -> f64 {
        let whole = hundredths.max(0.0) as usize;
        let below: f32 = self.0.iter().take(whole).sum();
        let next = self.0.get(whole).copied().unwrap_or_default();
        f64::from(below) + f64::from(next) * hundredths.max(0.0).fract()
    }
}

/// Evidence of a class.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClassEvidence {
    /// Accesses in the sample since measuring began. They do not fade.
    pub sampled: u64,
    /// Reads of clients that memory did not answer.
    pub accesses: f64,
    /// Part of them that the tier answered.
    pub hits: f64,
    /// Hits in chunks that random reads bring into the tier.
    pub by_pattern: Curve,
    /// Hits in other chunks: only what is important brings them in.
    pub otherwise: Curve,
    /// Mean time of a read of the pool, if there were some.
    pub pool_ns: Option<f64>,
    /// Space that the class has now, in hundredths of the data chunks' share.
    pub held_hundredths: f64,
    /// Accesses, and hits among them, since [`Evidence`] was last taken for a decision.
    pub recent: (f64, f64),
}

/// Evidence of all classes.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// By class.
    pub classes: Vec<ClassEvidence>,
    /// Space for data chunks, in hundredths of their share: more than 100 while other kinds leave
    /// theirs.
    pub room_hundredths: u8,
    /// Mean time of a read that the tier answered, if there were some.
    pub tier_ns: Option<f64>,
    /// Time since the first access, nanoseconds.
    pub observed_ns: u64,
    /// Time for which the counts stand, nanoseconds: it fades as they do.
    pub window_ns: u64,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            classes: vec![ClassEvidence::default(); CLASSES],
            room_hundredths: 100,
            tier_ns: None,
            observed_ns: 0,
            window_ns: 0,
        }
    }
}

impl Evidence {
    /// Returns the evidence of a class.
    pub fn of(&self, class: IoClass) -> Option<&ClassEvidence> {
        self.classes.get(usize::from(class.0))
    }

    /// Returns the number of accesses in the sample.
    pub fn sampled(&self) -> u64 {
        self.classes.iter().map(|of| of.sampled).sum()
    }

    /// Returns the number of recent accesses, all of them and not only the sample.
    pub fn recent(&self) -> f64 {
        self.classes.iter().map(|of| of.recent.0).sum()
    }

    /// Returns the mean time of a read of the pool, by the reads of each class.
    pub fn pool_ns(&self) -> Option<f64> {
        let of_class = |of: &ClassEvidence| Some((of.pool_ns?, (of.accesses - of.hits).max(1.0)));
        let measured = self.classes.iter().filter_map(of_class);
        let (sum, reads) = measured.fold((0.0, 0.0), |(sum, all), (ns, reads)| {
            (sum + ns * reads, all + reads)
        });
        (reads > 0.0).then(|| sum / reads)
    }

    /// Returns the mean time that a hit of a class saves, nanoseconds: the read of the pool that it
    /// replaces, less its own. A class whose reads of the pool were not measured has the mean of
    /// all classes.
    pub fn saved_ns(&self, of: &ClassEvidence) -> f64 {
        let pool_ns = of.pool_ns.or_else(|| self.pool_ns()).unwrap_or(0.0);
        (pool_ns - self.tier_ns.unwrap_or(0.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_says_what_fits() {
        let mut curve = Curve::default();
        curve.add(0, 10.0);
        curve.add(2, 30.0);
        curve.add(CURVE_BINS, 1000.0);
        let at = [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 1000.0].map(|x| curve.hits(x));
        assert_eq!(at, [0.0, 5.0, 10.0, 10.0, 25.0, 40.0, 40.0]);
        curve.halve();
        assert_eq!(curve.hits(200.0), 20.0);
        assert_eq!(curve.hits(-1.0), 0.0);
    }

    #[test]
    fn time_that_was_not_measured_is_the_mean() {
        let mut evidence = Evidence::default();
        evidence.classes[1].pool_ns = Some(8e6);
        evidence.classes[2].pool_ns = Some(4e6);
        evidence.tier_ns = Some(1e6);
        let saved = |n: u8| evidence.of(IoClass(n)).map(|of| evidence.saved_ns(of));
        assert_eq!(
            [saved(1), saved(2), saved(3)],
            [Some(7e6), Some(3e6), Some(5e6)]
        );
        evidence.tier_ns = Some(9e9);
        let none = evidence.of(IoClass(1)).map(|of| evidence.saved_ns(of));
        assert_eq!(none, Some(0.0), "a slow device saves nothing");
    }
}
