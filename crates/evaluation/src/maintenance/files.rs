//! Where the files lie, which are hot, which are in fragments.
//!
//! Invariant: every file has one place of its own; all follows from the seed. Called by the world and its tasks.

use super::settings::{FILE_BYTES, Settings};
use sim::Seed;

/// See the module's head.
pub struct Files {
    /// By place on the disk: the file.
    by_place: Vec<u64>,
    place_of: Vec<u64>,
    /// Any order; a hot set of any size is its beginning.
    by_heat: Vec<u64>,
    rank_of: Vec<u64>,
    fragmented: Vec<bool>,
}

/// Of an order of numbers: where each of them stands.
fn inverse(order: &[u64]) -> Vec<u64> {
    let mut ranks = vec![0; order.len()];
    for (rank, number) in (0..).zip(order) {
        if let Some(slot) = ranks.get_mut(*number as usize) {
            *slot = rank;
        }
    }
    ranks
}

impl Files {
    /// Of an experiment.
    pub fn new(settings: &Settings) -> Self {
        let seed = Seed::new(settings.seed);
        let mut by_place: Vec<u64> = (0..settings.files).collect();
        let mut order = seed.part(1);
        for directory in by_place.chunks_mut(settings.directory_files.max(1) as usize) {
            order.shuffle(directory);
        }
        let place_of = inverse(&by_place);
        let mut by_heat: Vec<u64> = (0..settings.files).collect();
        seed.part(2).shuffle(&mut by_heat);
        let mut fragmented = vec![false; by_place.len()];
        let mut any: Vec<u64> = (0..settings.files).collect();
        seed.part(3).shuffle(&mut any);
        for file in any
            .iter()
            .take((settings.files * settings.fragmented_percent / 100) as usize)
        {
            if let Some(is_fragmented) = fragmented.get_mut(*file as usize) {
                *is_fragmented = true;
            }
        }
        Self {
            by_place,
            place_of,
            rank_of: inverse(&by_heat),
            by_heat,
            fragmented,
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.by_place.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// First byte on the disk.
    pub fn address(&self, file: u64) -> u64 {
        self.place_of
            .get(file as usize)
            .map_or(0, |place| place * FILE_BYTES)
    }

    /// Which file lies at a place, counted in files.
    pub fn at_place(&self, place: u64) -> Option<u64> {
        self.by_place.get(place as usize).copied()
    }

    /// The place of a file, counted in files.
    pub fn place(&self, file: u64) -> u64 {
        self.address(file) / FILE_BYTES
    }

    /// The `nth` hot file.
    pub fn hot(&self, nth: u64) -> u64 {
        self.by_heat.get(nth as usize).copied().unwrap_or(0)
    }

    /// The first file in fragments among the hottest but `passed`.
    pub fn hottest_fragmented(&self, passed: u64) -> Option<u64> {
        let mut rest = self.by_heat.iter().skip(passed as usize);
        rest.find(|file| self.is_fragmented(**file)).copied()
    }

    /// How many files are hotter.
    pub fn heat_rank(&self, file: u64) -> u64 {
        self.rank_of.get(file as usize).copied().unwrap_or(0)
    }

    /// Whether it is in fragments.
    pub fn is_fragmented(&self, file: u64) -> bool {
        self.fragmented.get(file as usize).copied().unwrap_or(false)
    }

    /// How many are.
    pub fn fragmented(&self) -> u64 {
        self.fragmented.iter().filter(|is| **is).count() as u64
    }

    /// Where the log begins: after the files, and what is rewritten after the log.
    pub fn log_address(&self) -> u64 {
        self.len() * FILE_BYTES
    }
}
