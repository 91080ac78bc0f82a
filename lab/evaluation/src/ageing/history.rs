//! The backed-up stream: pieces that change a little from one generation to the next.
//!
//! The pool calls this.
//! Invariant: no two pieces ever have the same bytes; the same seed gives the same history.

use media::{Random, SeededRandom};
use sim::Seed;

/// Size of a piece, bytes: smaller than a region, so a moved piece gets unrelated neighbours.
pub const PIECE_BYTES: usize = 64 << 10;

/// The stream, generation by generation.
pub struct History {
    /// Numbers of its pieces, in order.
    pieces: Vec<u64>,
    next: u64,
    seed: Seed,
}

impl History {
    /// Creates the first generation.
    pub fn new(pieces: u64, seed: u64) -> Self {
        Self {
            pieces: (0..pieces).collect(),
            next: pieces,
            seed: Seed::new(seed),
        }
    }

    /// Deletes a hundredth of the pieces, moves a hundredth, and inserts as many new ones.
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

    /// Returns the bytes of the current generation.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.pieces.len() * PIECE_BYTES];
        for (piece, into) in self.pieces.iter().zip(bytes.chunks_mut(PIECE_BYTES)) {
            SeededRandom::new(piece + 1).fill(into);
        }
        bytes
    }
}
