//! The web server: when it requests which file.
//!
//! The world calls this.
//! Invariant: the same seed gives the same requests.

use super::files::Files;
use super::settings::{Load, Picks};
use crate::disk::{DiskRequest, MILLISECOND, Ns};
use sim::Seed;

/// Time to serve a file from memory.
const FROM_MEMORY: Ns = MILLISECOND / 4;

/// A request that needs the disk.
pub(super) struct Asked {
    pub since: Ns,
    pub request: DiskRequest,
    /// File that it serves; `None`: it writes the log.
    pub file: Option<u64>,
}

/// The web server. See the module's head.
pub struct WebServer {
    load: Load,
    hot_files: u64,
    served: u64,
    seed: Seed,
    /// Mean time between requests; `None`: the next one follows the last.
    gap: Option<Ns>,
    /// Time of the next request.
    pub next: Option<Ns>,
}

impl WebServer {
    /// `busy` is the mean disk time of a request.
    pub fn new(load: Load, files: &Files, busy: Ns, seed: Seed) -> Self {
        let gap = match load.utilisation {
            100.. => None,
            percent => (busy * 100).checked_div(percent).or(Some(Ns::MAX)),
        };
        let mut web = Self {
            load,
            hot_files: (files.len() * load.overlap / 100).max(1),
            served: 0,
            seed,
            gap,
            next: None,
        };
        web.plan(0);
        web
    }

    /// Returns the next requested file.
    pub fn pick(&mut self, files: &Files) -> u64 {
        let nth = match self.load.picks {
            Picks::InRotation => self.served % self.hot_files,
            Picks::AtRandom => self.seed.below(self.hot_files),
        };
        self.served += 1;
        files.hot(nth)
    }

    /// Chooses the time of the next request.
    pub fn plan(&mut self, now: Ns) {
        self.next = match self.gap {
            None => Some(now),
            Some(Ns::MAX) => None,
            Some(gap) => Some(now + exponential(&mut self.seed, gap)),
        };
    }

    /// Adds the time of a request that was served from memory.
    pub fn hit(&mut self, now: Ns) {
        if self.is_saturating() {
            self.next = Some(now + FROM_MEMORY);
        }
    }

    /// Returns true if each request follows the last one at once.
    pub fn is_saturating(&self) -> bool {
        self.gap.is_none()
    }

    /// Returns the number of requests so far.
    pub fn served(&self) -> u64 {
        self.served
    }
}

/// Returns an exponentially distributed time with this mean. It uses comparisons only (von
/// Neumann), because logarithms differ between machines in the last bit.
fn exponential(seed: &mut Seed, mean: Ns) -> Ns {
    for whole in 0.. {
        let first = seed.draw();
        let (mut last, mut falls) = (first, 1u64);
        loop {
            let next = seed.draw();
            if next > last {
                break;
            }
            (last, falls) = (next, falls + 1);
        }
        if falls % 2 == 1 {
            let part = (u128::from(mean) * u128::from(first)) >> 64;
            return mean.saturating_mul(whole).saturating_add(part as Ns);
        }
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut seed = Seed::new(7);
        let gaps: Vec<Ns> = (0..100_000)
            .map(|_| exponential(&mut seed, 1_000_000))
            .collect();
        let mean = gaps.iter().sum::<Ns>() / gaps.len() as u64;
        assert!((985_000..1_015_000).contains(&mean), "{mean}");
        let long = gaps.iter().filter(|gap| **gap > 2_000_000).count();
        assert!((13_000..14_100).contains(&long), "{long}, 13,534 expected");
    }
}
