//! Files of the experiment: their places, which are hot, which are fragmented.
//!
//! The world and its tasks call this.
//! Invariant: each file has a place of its own. Everything follows from the seed.

use super::settings::{FILE_BYTES, Settings};
use sim::Seed;
use std::collections::BTreeMap;

/// The files. See the module's head.
pub struct Files {
    /// File at each place on the disk.
    by_place: Vec<u64>,
    place_of: Vec<u64>,
    /// Files in random order; a hot set of any size is a prefix of it.
    by_heat: Vec<u64>,
    rank_of: Vec<u64>,
    fragmented: Vec<bool>,
    /// Sparse files in the order in which they are collected, and the position of each.
    sparse: Vec<u64>,
    sparse_rank: BTreeMap<u64, usize>,
}

/// Returns the position of each number in `order`.
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
    /// Creates the files of an experiment.
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
        let mut sparse: Vec<u64> = (0..settings.files).collect();
        seed.part(5).shuffle(&mut sparse);
        sparse.truncate((settings.files * settings.sparse_percent / 100) as usize);
        let ranks = sparse.iter().enumerate().map(|(nth, file)| (*file, nth));
        Self {
            sparse_rank: ranks.collect(),
            sparse,
            by_place,
            place_of,
            rank_of: inverse(&by_heat),
            by_heat,
            fragmented,
        }
    }

    /// Returns the number of files.
    pub fn len(&self) -> u64 {
        self.by_place.len() as u64
    }

    /// Returns true if there are no files.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Returns the first byte of a file on the disk.
    pub fn address(&self, file: u64) -> u64 {
        self.place_of
            .get(file as usize)
            .map_or(0, |place| place * FILE_BYTES)
    }

    /// Returns the file at a place, counted in files.
    pub fn at_place(&self, place: u64) -> Option<u64> {
        self.by_place.get(place as usize).copied()
    }

    /// Returns the place of a file, counted in files.
    pub fn place(&self, file: u64) -> u64 {
        self.address(file) / FILE_BYTES
    }

    /// Returns the `nth` hot file.
    pub fn hot(&self, nth: u64) -> u64 {
        self.by_heat.get(nth as usize).copied().unwrap_or(0)
    }

    /// Returns the hottest fragmented file, without the `passed` hottest files.
    pub fn hottest_fragmented(&self, passed: u64) -> Option<u64> {
        let mut rest = self.by_heat.iter().skip(passed as usize);
        rest.find(|file| self.is_fragmented(**file)).copied()
    }

    /// Returns how many files are hotter.
    pub fn heat_rank(&self, file: u64) -> u64 {
        self.rank_of.get(file as usize).copied().unwrap_or(0)
    }

    /// Returns true if the file is fragmented.
    pub fn is_fragmented(&self, file: u64) -> bool {
        self.fragmented.get(file as usize).copied().unwrap_or(false)
    }

    /// Returns the number of fragmented files.
    pub fn fragmented(&self) -> u64 {
        self.fragmented.iter().filter(|is| **is).count() as u64
    }

    /// Returns true if half of the file is garbage.
    pub fn is_sparse(&self, file: u64) -> bool {
        self.sparse_rank.contains_key(&file)
    }

    /// Returns the number of sparse files.
    pub fn sparse(&self) -> u64 {
        self.sparse.len() as u64
    }

    /// Returns the sparse file that is collected after this one.
    pub fn sparse_after(&self, file: Option<u64>) -> Option<u64> {
        let rank = file.and_then(|file| self.sparse_rank.get(&file));
        self.sparse.get(rank.map_or(0, |rank| rank + 1)).copied()
    }

    /// Returns the address of the log, which follows the files. Rewritten files follow the log.
    pub fn log_address(&self) -> u64 {
        self.len() * FILE_BYTES
    }
}
