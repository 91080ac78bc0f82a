//! A file and the places of its blocks.
//!
//! The runs call this.
//! Invariant: no two blocks have the same place.

use fragpicker::{BLOCK_BYTES, ObjectLayout, Piece};
use sim::Seed;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;

/// Period of the published file, bytes: 32 pieces of 4 KiB, then one of 128 KiB.
pub const PERIOD_BYTES: u64 = 256 << 10;
/// Start of the area that defragmentation writes, one piece after another.
const FRESH: u64 = 200 << 30;
/// End of the area of the original pieces.
const OLD: u64 = 100 << 30;

/// The file. See the module's head.
#[derive(Clone)]
pub struct File {
    /// Place of each block.
    places: Vec<u64>,
    fresh: u64,
}

impl File {
    /// Creates a file of pieces of these sizes, repeated, each at a random place in 100 GiB.
    pub fn new(bytes: u64, sizes: &[u64], seed: u64) -> Self {
        let mut seed = Seed::new(seed);
        let mut places = Vec::new();
        let blocks = bytes / BLOCK_BYTES;
        // Slots twice as large as the largest piece keep pieces apart.
        let slot = sizes.iter().copied().max().unwrap_or(BLOCK_BYTES) * 2;
        let slots = OLD / slot;
        let mut taken = BTreeSet::new();
        while (places.len() as u64) < blocks {
            for size in sizes {
                let mut free = seed.below(slots);
                while !taken.insert(free) {
                    free = seed.below(slots);
                }
                let within = seed.below((slot - size) / BLOCK_BYTES) * BLOCK_BYTES;
                let place = free * slot + within;
                places.extend((0..size / BLOCK_BYTES).map(|n| place + n * BLOCK_BYTES));
            }
        }
        places.truncate(blocks as usize);
        Self {
            places,
            fresh: FRESH,
        }
    }

    /// Creates the published file.
    pub fn published(bytes: u64, seed: u64) -> Self {
        let mut sizes = vec![4 << 10; 32];
        sizes.push(128 << 10);
        Self::new(bytes, &sizes, seed)
    }

    /// Returns the size, bytes.
    pub fn bytes(&self) -> u64 {
        self.places.len() as u64 * BLOCK_BYTES
    }

    /// Returns places and lengths of the pieces of a range.
    pub fn read(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for block in range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES) {
            let Some(place) = self.places.get(block as usize) else {
                break;
            };
            match pieces.last_mut() {
                Some((at, bytes)) if *at + *bytes == *place => *bytes += BLOCK_BYTES,
                _ => pieces.push((*place, BLOCK_BYTES)),
            }
        }
        pieces
    }

    /// Moves a range to one new piece.
    pub fn migrate(&mut self, range: &Range<u64>) {
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        for block in blocks {
            if let Some(place) = self.places.get_mut(block as usize) {
                *place = self.fresh;
                self.fresh += BLOCK_BYTES;
            }
        }
    }
}

impl ObjectLayout for File {
    type Error = Infallible;

    fn size(&self, _: u64) -> Result<u64, Infallible> {
        Ok(self.bytes())
    }

    fn pieces(&self, _: u64, range: Range<u64>) -> Result<Vec<Piece>, Infallible> {
        let mut offset = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let piece = |(place, len): (u64, u64)| {
            let piece = Piece {
                offset,
                len,
                place,
                is_shared: false,
            };
            offset += len;
            piece
        };
        Ok(self.read(range).into_iter().map(piece).collect())
    }
}
