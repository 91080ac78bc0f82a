//! What is backed up: a stream of pieces that changes a little from one generation to the next.
//!
//! Invariant: no two pieces ever have the same bytes; the same seed gives the same history. Called by the pool.

use media::{Random, SeededRandom};
use sim::Seed;

/// A piece of the stream, bytes: smaller than a region, so what moves lies among strangers.
pub const PIECE_BYTES: usize = 64 << 10;

/// The stream, generation by generation.
pub struct History {
    /// Which pieces it has, in order.
    pieces: Vec<u64>,
    next: u64,
    seed: Seed,
}

impl History {
    /// The first generation.
    pub fn new(pieces: u64, seed: u64) -> Self {
        Self {
            pieces: (0..pieces).collect(),
            next: pieces,
            seed: Seed::new(seed),
        }
    }

    /// A hundredth of the pieces goes, a hundredth moves, as many are new.
    pub fn age(&mut self) {
        let changes = (self.pieces.len() / 100).max(1);
        for _ in 0..changes {
            let at = self.any();
            self.pieces.remove(at);
        }
        for _ in 0..changes {
            let from = self.any();
            let piece = self.pieces.remove(from);
            let to = self.any();
            self.pieces.insert(to, piece);
        }
        for _ in 0..changes {
            let at = self.any();
            self.pieces.insert(at, self.next);
            self.next += 1;
        }
    }

    fn any(&mut self) -> usize {
        self.seed.below(self.pieces.len() as u64) as usize
    }

    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.pieces.len() * PIECE_BYTES];
        for (piece, into) in self.pieces.iter().zip(bytes.chunks_mut(PIECE_BYTES)) {
            SeededRandom::new(piece + 1).fill(into);
        }
        bytes
    }
}
