//! Reads records of writes whose pages have left memory, before their chunks are assembled.
//!
//! Invariant: reads only, and reports no failure: assembling the chunk does.

use super::Member;
use crate::overlay::Source;

impl Member {
    /// Reads the records of the chunks from this one on, as many as the journal keeps, in the order
    /// of the journal: in that of the volume a disk would seek for each of them.
    pub(super) fn read_ahead(&mut self, chunk: u64) {
        let start = chunk << self.volume.log2;
        if start < self.ahead_to {
            return;
        }
        let journal = &self.backing.journal;
        let mut left = journal.ahead_bytes();
        let (mut positions, mut at) = (Vec::new(), start);
        while left > 0
            && let Some(piece) = self.frozen.next(at)
        {
            at = piece.end().max(at + 1);
            if matches!(piece.source, Source::Record { .. }) && !self.is_resident(&piece) {
                positions.push(piece.position);
                left = left.saturating_sub(piece.len);
            }
        }
        self.ahead_to = at;
        // A single one is read when its chunk is assembled.
        if positions.len() > 1 {
            journal.read_ahead(&mut positions);
        }
    }
}
