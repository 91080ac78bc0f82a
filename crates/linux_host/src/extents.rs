//! Where the bytes of a file lie on its device, by FIEMAP: extents, pieces, and how many of which
//! size. `migrate` and the program call this; [`FileLayout`] is what FragPicker plans with.
//!
//! Invariant: nothing is written, and memory does not grow with the file. Holes and preallocated
//! ranges are not data: they are no pieces and no breaks.

mod histogram;

pub use histogram::{Class, Histogram};

use crate::sys::extents::{RawExtent, fiemap};
use fragpicker::{ObjectLayout, Piece};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;

/// An extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// Position on the device, bytes; means nothing unless [`FileExtent::has_place`].
    pub place: u64,
    /// Flags as FIEMAP has them.
    pub flags: u32,
}

impl FileExtent {
    const UNKNOWN: u32 = 0x2;
    const DELALLOC: u32 = 0x4;
    const ENCODED: u32 = 0x8;
    const DATA_ENCRYPTED: u32 = 0x80;
    const NOT_ALIGNED: u32 = 0x100;
    const INLINE: u32 = 0x200;
    const TAIL: u32 = 0x400;
    const UNWRITTEN: u32 = 0x800;
    const SHARED: u32 = 0x2000;

    fn has(self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Other files, or other ranges, own the extent too.
    pub fn is_shared(self) -> bool {
        self.has(Self::SHARED)
    }

    /// Space is reserved, and the range reads as zeroes.
    pub fn is_preallocated(self) -> bool {
        self.has(Self::UNWRITTEN)
    }

    /// The bytes on the device are not those of the file: compressed.
    pub fn is_encoded(self) -> bool {
        self.has(Self::ENCODED)
    }

    /// The bytes are kept beside the metadata, not in blocks of their own.
    pub fn is_inline(self) -> bool {
        self.has(Self::INLINE | Self::TAIL)
    }

    /// The bytes on the device are encrypted by the file system.
    pub fn is_encrypted(self) -> bool {
        self.has(Self::DATA_ENCRYPTED)
    }

    /// The data is in whole blocks, at a place that is known. Data that is in memory only, inline
    /// or in a shared block has none.
    pub fn has_place(self) -> bool {
        let placeless =
            Self::UNKNOWN | Self::DELALLOC | Self::NOT_ALIGNED | Self::INLINE | Self::TAIL;
        !self.has(placeless)
    }

    fn piece(self) -> Option<Piece> {
        (self.has_place() && !self.is_preallocated()).then_some(Piece {
            offset: self.offset,
            len: self.len,
            place: self.place,
            is_shared: self.is_shared(),
        })
    }
}

impl From<RawExtent> for FileExtent {
    fn from(raw: RawExtent) -> Self {
        Self {
            offset: raw.logical,
            len: raw.bytes,
            place: raw.physical,
            flags: raw.flags,
        }
    }
}

/// Visits the extents of a range in ascending order; the first and the last may extend beyond it.
pub fn extents(
    file: &File,
    range: Range<u64>,
    visit: &mut dyn FnMut(FileExtent),
) -> io::Result<()> {
    extents_while(file, range, &mut |extent| {
        visit(extent);
        true
    })
}

/// Returns the first byte of a range that is written and has a place.
pub(crate) fn first_data(file: &File, range: Range<u64>) -> io::Result<Option<u64>> {
    let (mut found, end) = (None, range.end);
    extents_while(file, range.clone(), &mut |extent| {
        let offset = extent.piece().map(|piece| piece.offset.max(range.start));
        found = offset.filter(|offset| *offset < end);
        offset.is_none()
    })?;
    Ok(found)
}

fn extents_while(
    file: &File,
    range: Range<u64>,
    visit: &mut dyn FnMut(FileExtent) -> bool,
) -> io::Result<()> {
    const LAST: u32 = 1;
    let mut rest = range;
    while !rest.is_empty() {
        let found = fiemap(file, &rest)?;
        let before = rest.start;
        let mut is_last = found.is_empty();
        for raw in found {
            rest.start = raw.logical.saturating_add(raw.bytes).max(rest.start);
            is_last |= raw.flags & LAST != 0;
            if !visit(raw.into()) {
                return Ok(());
            }
        }
        if is_last {
            break;
        }
        // A file system that reports the same again would keep this loop for ever.
        if rest.start == before {
            return Err(io::Error::other("FIEMAP does not get past an extent"));
        }
    }
    Ok(())
}

/// Returns true if the device passes from one piece to the next without a seek: the second begins
/// where the first ends, or lies as far behind it as in the file (with preallocated blocks
/// between).
fn is_contiguous(first: &Piece, second: &Piece) -> bool {
    let place = first.place.saturating_add(first.len);
    let apart = second.offset.checked_sub(first.offset);
    place == second.place || apart.is_some() && apart == second.place.checked_sub(first.place)
}

/// The layout of one file, read as it is asked for. The object's number has no meaning.
pub struct FileLayout<'a> {
    file: &'a File,
    size: u64,
    known: RefCell<Known>,
}

/// Pieces of a range that was read.
#[derive(Default)]
struct Known {
    range: Range<u64>,
    pieces: Vec<Piece>,
}

/// Range that is read at once, bytes: 16,384 pieces of 4 KiB at most.
const READ_BYTES: u64 = 64 << 20;

impl<'a> FileLayout<'a> {
    /// Prepares to read the layout of a file.
    pub fn of(file: &'a File) -> io::Result<Self> {
        Ok(Self {
            file,
            size: file.metadata()?.len(),
            known: RefCell::default(),
        })
    }
}

impl ObjectLayout for FileLayout<'_> {
    type Error = io::Error;

    fn size(&self, _object: u64) -> io::Result<u64> {
        Ok(self.size)
    }

    fn pieces(&self, _object: u64, range: Range<u64>) -> io::Result<Vec<Piece>> {
        let mut known = self.known.borrow_mut();
        if range.start < known.range.start || range.end > known.range.end {
            let start = range.start;
            let end = range.end.max(start.saturating_add(READ_BYTES));
            known.pieces = pieces(self.file, start..end)?;
            known.range = start..end;
        }
        let end_of = |piece: &Piece| piece.offset.saturating_add(piece.len);
        let first = known.pieces.partition_point(|p| end_of(p) <= range.start);
        let found = known.pieces.iter().skip(first);
        Ok(found
            .take_while(|p| p.offset < range.end)
            .copied()
            .collect())
    }

    fn fragments(&self, pieces: &[Piece]) -> u64 {
        fragments(pieces)
    }
}

/// Counts the separate places of pieces that are in ascending order.
pub fn fragments(pieces: &[Piece]) -> u64 {
    let breaks = pieces.windows(2).filter(|pair| match pair {
        [first, second] => !is_contiguous(first, second),
        _ => false,
    });
    breaks.count() as u64 + u64::from(!pieces.is_empty())
}

/// Returns the pieces of a range. Extents that are adjacent in the file and on the device, and
/// shared alike, are one piece.
pub(crate) fn pieces(file: &File, range: Range<u64>) -> io::Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    extents(file, range, &mut |extent| {
        let Some(piece) = extent.piece() else { return };
        match pieces.last_mut() {
            Some(last)
                if last.offset.saturating_add(last.len) == piece.offset
                    && last.place.saturating_add(last.len) == piece.place
                    && last.is_shared == piece.is_shared =>
            {
                last.len = last.len.saturating_add(piece.len);
            }
            _ => pieces.push(piece),
        }
    })?;
    Ok(pieces)
}

#[cfg(test)]
mod tests;
