//! Overlay: interval map from byte ranges of a volume to writes that its recipe does not have yet.
//!
//! Live volumes, checkpoints and replay call this.
//! Invariant: pieces do not overlap. Of two writes to one byte, the one with the higher journal
//! position stays, in whatever order they are inserted. An overlay holds no user data and does no
//! I/O.

use chunk_store::recipe::ChunkRun;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::Result;
use units::{Fingerprint, IoClass, JournalPosition, Part};

/// Place of a piece's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the journal's record at the piece's position.
    Record {
        /// Offset of the piece in the record's data, bytes.
        skip: u32,
        /// Class of the write; `None` if it was before this process.
        class: Option<IoClass>,
    },
    /// All bytes are zero.
    Zero,
    /// In chunks that bypassed the journal.
    Chunks(DirectChunks),
    /// The journal's record is damaged.
    Lost,
}

/// Consecutive whole chunks, and the offset at which a piece begins in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectChunks {
    /// A chunk of zeroes is a hole.
    pub fingerprints: Arc<[Fingerprint]>,
    pub log2: u8,
    /// Offset of the piece in the chunks, bytes.
    pub skip: u32,
}

impl DirectChunks {
    /// Returns the chunk that contains byte `at` of the piece, and the offset in the chunk.
    pub fn at(&self, at: u64) -> Result<(Fingerprint, usize)> {
        let byte = u64::from(self.skip) + at;
        let number = usize::try_from(byte >> self.log2).unwrap_or(usize::MAX);
        let chunk = *self.fingerprints.item(number)?;
        Ok((chunk, (byte & ((1 << self.log2) - 1)) as usize))
    }
}

/// A range and the source of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte in the volume.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
    /// Journal position of its write.
    pub position: JournalPosition,
    pub source: Source,
}

impl Piece {
    /// Returns the first byte after the piece.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Returns the data bytes that the piece has in the journal.
    pub fn journal_bytes(&self) -> u64 {
        match &self.source {
            Source::Record { .. } => self.len,
            Source::Chunks(chunks) => (self.len >> chunks.log2) * 32,
            Source::Zero | Source::Lost => 0,
        }
    }

    /// Returns the class of its write, if that is known.
    pub fn class(&self) -> Option<IoClass> {
        match &self.source {
            Source::Record { class, .. } => *class,
            Source::Zero | Source::Chunks(_) | Source::Lost => None,
        }
    }

    /// Returns the position from which the journal is needed for the piece.
    pub fn needs(&self) -> Option<JournalPosition> {
        (self.source != Source::Lost).then_some(self.position)
    }

    /// Returns the part of the piece in `[from, to)`; `None` if it is empty.
    pub fn clip(&self, from: u64, to: u64) -> Option<Self> {
        let start = self.offset.max(from);
        let end = self.end().min(to);
        if start >= end {
            return None;
        }
        // Data of a record, and of one direct write, are far below 4 GiB.
        let ahead = (start - self.offset) as u32;
        let source = match &self.source {
            Source::Record { skip, class } => Source::Record {
                skip: skip.saturating_add(ahead),
                class: *class,
            },
            Source::Zero => Source::Zero,
            Source::Lost => Source::Lost,
            Source::Chunks(chunks) => Source::Chunks(DirectChunks {
                skip: chunks.skip.saturating_add(ahead),
                ..chunks.clone()
            }),
        };
        Some(Self {
            offset: start,
            len: end - start,
            position: self.position,
            source,
        })
    }
}

#[derive(Clone, Debug)]
struct Entry {
    len: u64,
    position: JournalPosition,
    source: Source,
}

/// Memory of one piece, bytes: its share of a B-tree at three quarters full, and the recipe change
/// that it becomes.
pub(crate) const PIECE_BYTES: usize = 80 + size_of::<ChunkRun>();

/// Number of pieces in all overlays that share the tally.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<AtomicU64>);

impl Tally {
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Pieces by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    pieces: BTreeMap<u64, Entry>,
    first: Option<JournalPosition>,
    tally: Tally,
    /// Number that this overlay has added to the tally.
    tallied: u64,
}

impl Clone for Overlay {
    fn clone(&self) -> Self {
        let mut clone = Self {
            pieces: self.pieces.clone(),
            first: self.first,
            tally: self.tally.clone(),
            tallied: 0,
        };
        clone.count();
        clone
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.tally.0.fetch_sub(self.tallied, Relaxed);
    }
}

impl Overlay {
    /// Moves the pieces to another tally.
    pub fn tallied_by(mut self, tally: &Tally) -> Self {
        self.tally.0.fetch_sub(self.tallied, Relaxed);
        self.tallied = 0;
        self.tally = tally.clone();
        self.count();
        self
    }

    /// Returns the whole overlay and leaves an empty one.
    pub fn take(&mut self) -> Self {
        let empty = Self::default().tallied_by(&self.tally);
        std::mem::replace(self, empty)
    }

    fn count(&mut self) {
        let now = self.pieces.len() as u64;
        // Wraps around if there are fewer.
        self.tally
            .0
            .fetch_add(now.wrapping_sub(self.tallied), Relaxed);
        self.tallied = now;
    }

    /// Returns true if there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the lowest position that was ever inserted: the journal is needed from there on.
    pub fn first_position(&self) -> Option<JournalPosition> {
        self.first
    }

    /// Inserts a write. Ranges with newer writes stay.
    pub fn insert(&mut self, piece: Piece) {
        if piece.len == 0 {
            return;
        }
        if let Some(position) = piece.needs() {
            self.first = Some(self.first.map_or(position, |f| f.min(position)));
        }
        // The usual case of random writes: exactly this range was written before.
        if let Some(entry) = self.pieces.get_mut(&piece.offset)
            && entry.len == piece.len
        {
            if entry.position <= piece.position {
                entry.position = piece.position;
                entry.source = piece.source;
            }
            return;
        }
        let (from, to) = (piece.offset, piece.end());
        let mut at = from;
        for old in self.overlapping(from, to) {
            if old.position > piece.position {
                self.put(piece.clip(at, old.offset));
                at = old.end().max(at);
                continue;
            }
            self.pieces.remove(&old.offset);
            self.put(old.clip(0, from));
            self.put(old.clip(to, u64::MAX));
        }
        self.put(piece.clip(at, to));
        self.count();
    }

    fn put(&mut self, piece: Option<Piece>) {
        let Some(piece) = piece else {
            return;
        };
        let entry = Entry {
            len: piece.len,
            position: piece.position,
            source: piece.source,
        };
        self.pieces.insert(piece.offset, entry);
    }

    fn overlapping(&self, from: u64, to: u64) -> Vec<Piece> {
        let mut found = Vec::new();
        self.visit_whole(from, to, |piece| found.push(piece));
        found
    }

    /// Visits the pieces that overlap `[from, to)`, uncut, in order.
    fn visit_whole(&self, from: u64, to: u64, mut visit: impl FnMut(Piece)) {
        let whole = |(offset, entry): (&u64, &Entry)| Piece {
            offset: *offset,
            len: entry.len,
            position: entry.position,
            source: entry.source.clone(),
        };
        if from >= to {
            return;
        }
        let before = self.pieces.range(..from).next_back().map(whole);
        if let Some(piece) = before.filter(|piece| piece.end() > from) {
            visit(piece);
        }
        self.pieces.range(from..to).map(whole).for_each(visit);
    }

    /// Visits the pieces in `[from, to)`, cut to it, in order. The overlay has nothing for the
    /// gaps.
    pub fn visit(&self, from: u64, to: u64, mut visit: impl FnMut(Piece)) {
        self.visit_whole(from, to, |piece| {
            piece.clip(from, to).into_iter().for_each(&mut visit);
        });
    }

    /// Returns the first piece that ends above `from`, uncut.
    pub fn next(&self, from: u64) -> Option<Piece> {
        let mut found = None;
        self.visit_whole(from, from.saturating_add(1), |piece| found = Some(piece));
        found.or_else(|| {
            let (offset, entry) = self.pieces.range(from..).next()?;
            Some(Piece {
                offset: *offset,
                len: entry.len,
                position: entry.position,
                source: entry.source.clone(),
            })
        })
    }

    /// Removes everything from byte `len` on.
    pub fn truncate(&mut self, len: u64) {
        self.pieces.split_off(&len);
        if let Some((offset, entry)) = self.pieces.iter_mut().next_back() {
            entry.len = entry.len.min(len - offset);
        }
        self.count();
    }
}

#[cfg(test)]
mod tests;
