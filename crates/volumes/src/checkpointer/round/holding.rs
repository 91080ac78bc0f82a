//! Which writes a checkpoint leaves in the journal because they matter: guests write the blocks of
//! metadata again and again, and each write that replaces one before the next checkpoint spares a
//! chunk (Differentiated Storage Services, SOSP'11: the syncer cleans what matters least first).
//!
//! A member calls this for each chunk.
//! Invariant: what is left is bounded by [`Limits::hold`], and a write is left once: the next
//! checkpoint takes it, unless it was written again.

use super::{Member, Meters, PAGE_BYTES, Piece, Source};

/// Bytes that a checkpoint may still use.
pub(crate) struct Limits {
    /// Bytes that it may store.
    pub room: u64,
    /// Bytes of important writes that it may leave in the journal.
    pub hold: u64,
}

impl Limits {
    /// Everything is stored.
    pub const NONE: Self = Self {
        room: u64::MAX,
        hold: 0,
    };
}

impl Member {
    /// Leaves the chunk at `start` in the journal if its first write is important and in memory,
    /// and was not left there before. Returns false if it is to be stored.
    pub(super) fn holds_back(&mut self, start: u64, piece: &Piece, limits: &mut Limits) -> bool {
        if limits.hold == 0 || !matches!(piece.source, Source::Record { .. }) {
            return false;
        }
        let end = (start + self.volume.chunk_bytes()).min(self.len);
        let part = piece.clip(start, end);
        let part =
            part.filter(|part| !self.was_held.contains(&part.position.0) && self.is_resident(part));
        let class = part.and_then(|part| part.class());
        if !class.is_some_and(|class| self.backing.cache.is_important(class)) {
            return false;
        }
        let mut pieces = 0;
        self.frozen.visit(start, end, |_| pieces += 1);
        // In memory a piece counts as a page does.
        let size = (end - start).max(pieces * PAGE_BYTES);
        let Some(left) = limits.hold.checked_sub(size) else {
            return false;
        };
        limits.hold = left;
        Meters::add(&self.backing.meters.held_bytes, end - start);
        self.held.push(start..end);
        true
    }
}
