//! Describes where the bytes of an object lie. A planner asks for nothing else.
//!
//! The store implements this for regions of containers, a Linux host for extents of files.
//! Invariant: pieces are ascending and do not overlap.

use std::ops::Range;

/// Bytes of an object that are contiguous on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte in the object.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// Position on the device. Two pieces are contiguous when the second begins where the first
    /// ends.
    pub place: u64,
    /// Other objects own the piece too. Moving it would take its space twice.
    pub is_shared: bool,
}

/// Answers questions about the layout of objects.
pub trait ObjectLayout {
    /// Reason why the layout is unknown.
    type Error;

    /// Returns the size of an object, bytes.
    fn size(&self, object: u64) -> Result<u64, Self::Error>;

    /// Returns the pieces of a range of an object, ascending and without holes.
    ///
    /// The first and the last piece may extend beyond the range.
    fn pieces(&self, object: u64, range: Range<u64>) -> Result<Vec<Piece>, Self::Error>;

    /// Counts the separate places of these pieces, which come from [`ObjectLayout::pieces`] and are
    /// cut to a range.
    ///
    /// A hole between two pieces does not separate them. Their order does not either, on layouts
    /// where order costs nothing.
    fn fragments(&self, pieces: &[Piece]) -> u64 {
        let breaks = pieces.windows(2).filter(|pair| match pair {
            [first, second] => first.place.saturating_add(first.len) != second.place,
            _ => false,
        });
        breaks.count() as u64 + u64::from(!pieces.is_empty())
    }

    /// Returns the smallest possible number of pieces for `len` bytes: one, unless the layout
    /// limits the size of pieces.
    fn pieces_needed(&self, _len: u64) -> u64 {
        1
    }
}
