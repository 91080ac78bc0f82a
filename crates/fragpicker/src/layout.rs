//! Where the bytes of an object lie; the only thing that a plan asks the world.
//!
//! Implemented by the store (regions of containers) and for files of a Linux host (extents).

use std::ops::Range;

/// Bytes of an object that lie in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte in the object.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Where they lie: two pieces are in one place when the second begins where the first ends.
    pub place: u64,
    /// Others own them too: moved, they would take room twice.
    pub is_shared: bool,
}

/// See the module's head.
pub trait Layout {
    /// Why it cannot be said.
    type Error;

    /// Bytes of an object.
    fn size(&self, object: u64) -> Result<u64, Self::Error>;

    /// The pieces that a range of an object consists of, ascending, at most with what else belongs to the
    /// first and the last; holes are left out.
    fn pieces(&self, object: u64, range: Range<u64>) -> Result<Vec<Piece>, Self::Error>;

    /// In how many places these pieces lie, as [`Layout::pieces`] gave them, cut to a range. A hole
    /// between two of them does not part them; nor does the order, where it costs nothing.
    fn fragments(&self, pieces: &[Piece]) -> u64 {
        let breaks = pieces.windows(2).filter(|pair| match pair {
            [first, second] => first.place.saturating_add(first.len) != second.place,
            _ => false,
        });
        breaks.count() as u64 + u64::from(!pieces.is_empty())
    }

    /// In how many pieces so many bytes lie at best: one, unless pieces have a size.
    fn pieces_needed(&self, _len: u64) -> u64 {
        1
    }
}
