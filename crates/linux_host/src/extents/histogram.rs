//! Sizes of the pieces of files. `quintet host defrag` shows them.
//!
//! Invariant: memory does not grow with the file.

use super::{extents, is_contiguous};
use fragpicker::Piece;
use std::fs::File;
use std::io;

/// Number and bytes of contiguous pieces, by size. A class has the pieces of at least its size that
/// are smaller than the next one's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    classes: [Class; Self::CLASSES],
    /// Bytes that have no place: only in memory so far, or inline.
    pub placeless_bytes: u64,
    /// Bytes that are preallocated.
    pub preallocated_bytes: u64,
    /// Bytes that other files own too.
    pub shared_bytes: u64,
}

/// Pieces of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Smallest size, bytes; 0 for the first class.
    pub bytes_min: u64,
    /// Pieces.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Histogram {
    /// Below 8 KiB, then doubling up to 256 MiB and more.
    const CLASSES: usize = 17;

    /// Counts the pieces of a whole file.
    pub fn of(file: &File) -> io::Result<Self> {
        let mut histogram = Self::default();
        let mut run: Option<(Piece, u64)> = None;
        extents(file, 0..u64::MAX, &mut |extent| {
            let bytes = extent.len;
            if extent.is_preallocated() {
                histogram.preallocated_bytes += bytes;
            } else if !extent.has_place() {
                histogram.placeless_bytes += bytes;
            }
            let Some(piece) = extent.piece() else { return };
            histogram.shared_bytes += u64::from(piece.is_shared) * bytes;
            run = match run.take() {
                Some((last, sum)) if is_contiguous(&last, &piece) => Some((piece, sum + bytes)),
                before => {
                    histogram.count(before.map(|(_, sum)| sum));
                    Some((piece, bytes))
                }
            };
        })?;
        histogram.count(run.map(|(_, sum)| sum));
        Ok(histogram)
    }

    pub(super) fn count(&mut self, piece: Option<u64>) {
        let Some(bytes) = piece else { return };
        let class = (bytes >> 12).checked_ilog2().unwrap_or(0) as usize;
        if let Some(class) = self.classes.get_mut(class.min(Self::CLASSES - 1)) {
            class.pieces += 1;
            class.bytes += bytes;
        }
    }

    /// Adds the pieces of another file.
    pub fn add(&mut self, other: &Self) {
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.pieces += more.pieces;
            class.bytes += more.bytes;
        }
        self.placeless_bytes += other.placeless_bytes;
        self.preallocated_bytes += other.preallocated_bytes;
        self.shared_bytes += other.shared_bytes;
    }

    /// Returns the classes, small ones first.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.classes.iter().enumerate().map(|(n, class)| Class {
            bytes_min: if n == 0 { 0 } else { 4096 << n },
            ..*class
        })
    }

    /// Returns the number of all pieces.
    pub fn pieces(&self) -> u64 {
        self.classes.iter().map(|class| class.pieces).sum()
    }

    /// Returns the bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.bytes).sum()
    }
}
