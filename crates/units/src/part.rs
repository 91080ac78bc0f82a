//! Parts of slices, where a part that is not there has to be an error: an empty default in its
//! place would be stored, or shown, as if it were the bytes.
//!
//! Invariant: no part is shorter than the range that was asked for.

use std::fmt;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::panic::Location;

/// A range that its slice does not have. It is a fault of this program, never of stored bytes:
/// those are checked where they are decoded.
#[derive(Clone, Copy, Debug)]
pub struct OutOfRange {
    start: usize,
    /// `None`: to the end.
    end: Option<usize>,
    len: usize,
    place: &'static Location<'static>,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "internal error, please report it: items {}..",
            self.start
        )?;
        if let Some(end) = self.end {
            write!(f, "{end}")?;
        }
        write!(f, " of {} ({})", self.len, self.place)
    }
}

impl std::error::Error for OutOfRange {}

impl From<OutOfRange> for io::Error {
    fn from(error: OutOfRange) -> Self {
        Self::other(error)
    }
}

/// Slices that give parts of themselves.
pub trait Part<T> {
    /// Returns the items of a range, all of them.
    #[track_caller]
    fn part(&self, range: impl RangeBounds<usize>) -> Result<&[T], OutOfRange>;

    /// Returns one item.
    #[track_caller]
    fn item(&self, at: usize) -> Result<&T, OutOfRange>;

    /// The items of a range, to be changed.
    #[track_caller]
    fn part_mut(&mut self, range: impl RangeBounds<usize>) -> Result<&mut [T], OutOfRange>;
}

impl<T> Part<T> for [T] {
    #[inline]
    #[track_caller]
    fn part(&self, range: impl RangeBounds<usize>) -> Result<&[T], OutOfRange> {
        // Not in the closure, whose caller is this function.
        let place = Location::caller();
        self.get(bounds(&range))
            .ok_or_else(|| out_of_range(&range, self.len(), place))
    }

    #[inline]
    #[track_caller]
    fn item(&self, at: usize) -> Result<&T, OutOfRange> {
        let place = Location::caller();
        self.get(at)
            .ok_or_else(|| out_of_range(&(at..=at), self.len(), place))
    }

    #[inline]
    #[track_caller]
    fn part_mut(&mut self, range: impl RangeBounds<usize>) -> Result<&mut [T], OutOfRange> {
        let (bounds, len, place) = (bounds(&range), self.len(), Location::caller());
        self.get_mut(bounds)
            .ok_or_else(|| out_of_range(&range, len, place))
    }
}

fn bounds(range: &impl RangeBounds<usize>) -> (Bound<usize>, Bound<usize>) {
    (range.start_bound().cloned(), range.end_bound().cloned())
}

#[cold]
fn out_of_range(
    range: &impl RangeBounds<usize>,
    len: usize,
    place: &'static Location<'static>,
) -> OutOfRange {
    let start = match range.start_bound() {
        Bound::Included(at) => *at,
        Bound::Excluded(at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(at) => Some(at.saturating_add(1)),
        Bound::Excluded(at) => Some(*at),
        Bound::Unbounded => None,
    };
    OutOfRange {
        start,
        end,
        len,
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_whole_or_an_error() {
        let mut items = [1, 2, 3];
        assert_eq!(items.part(1..3).unwrap(), [2, 3]);
        assert_eq!(items.part(3..).unwrap(), [0; 0]);
        assert_eq!(items.part_mut(..2).unwrap(), [1, 2]);
        assert_eq!(*items.item(2).unwrap(), 3);
        let error = items.item(3).unwrap_err().to_string();
        assert!(error.contains("items 3..4 of 3"), "{error}");
        let line = line!() + 1;
        let error = items.part(2..5).unwrap_err().to_string();
        let place = format!("items 2..5 of 3 ({}:{line}:", file!());
        assert!(error.contains(&place), "{error}");
        assert!(items.part(4..).is_err() && items.part_mut(..=3).is_err());
        #[expect(clippy::reversed_empty_ranges)]
        let backwards = items.part(2..1);
        assert!(backwards.is_err());
    }
}
