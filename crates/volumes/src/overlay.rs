//! What was written to a volume since its recipe: an interval map from byte ranges to where their
//! bytes are.
//!
//! Invariant: pieces do not overlap; of two writes to one byte the one with the higher journal
//! position is kept, whatever the order in which they are entered. Holds no bytes of users and
//! does no I/O. Called by live volumes, checkpoints and replay.

use chunk_store::recipe::ChunkRun;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{Fingerprint, JournalPosition};

/// Where the bytes of a piece are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the journal's record at the piece's position, from this byte of its data on.
    Record {
        /// Bytes of the record's data before the piece.
        skip: u32,
    },
    /// They are zero.
    Zero,
    /// In chunks that were stored without passing the journal.
    Chunks(DirectChunks),
    /// They were in the journal, and are damaged there.
    Lost,
}

/// Whole chunks, one after another, and how far into them a piece begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectChunks {
    /// A hole for a chunk of zeroes.
    pub fingerprints: Arc<[Fingerprint]>,
    pub log2: u8,
    /// Bytes of the chunks before the piece.
    pub skip: u32,
}

impl DirectChunks {
    /// The chunk that holds byte `at` of the piece, and the byte in it.
    pub fn at(&self, at: u64) -> (Fingerprint, usize) {
        let byte = u64::from(self.skip) + at;
        let number = usize::try_from(byte >> self.log2).unwrap_or(usize::MAX);
        let chunk = self.fingerprints.get(number).copied().unwrap_or_default();
        (chunk, (byte & ((1 << self.log2) - 1)) as usize)
    }
}

/// A range and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte in the volume.
    pub offset: u64,
    /// Bytes, never 0.
    pub len: u64,
    /// The write that it is of.
    pub position: JournalPosition,
    pub source: Source,
}

impl Piece {
    /// First byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Bytes of data in the journal.
    pub fn journal_bytes(&self) -> u64 {
        match &self.source {
            Source::Record { .. } => self.len,
            Source::Chunks(chunks) => (self.len >> chunks.log2) * 32,
            Source::Zero | Source::Lost => 0,
        }
    }

    /// From where on the journal is needed for it.
    pub fn needs(&self) -> Option<JournalPosition> {
        (self.source != Source::Lost).then_some(self.position)
    }

    /// What of the piece lies in `[from, to)`; `None` when nothing does.
    pub fn clip(&self, from: u64, to: u64) -> Option<Self> {
        let start = self.offset.max(from);
        let end = self.end().min(to);
        if start >= end {
            return None;
        }
        // Data of a record, and what one writes directly, are far below 4 GiB.
        let ahead = (start - self.offset) as u32;
        let source = match &self.source {
            Source::Record { skip } => Source::Record {
                skip: skip.saturating_add(ahead),
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

/// Memory of one piece, bytes: what a B-tree takes for it at three quarters full, and the change of the
/// recipe that it becomes.
pub(crate) const PIECE_BYTES: usize = 80 + size_of::<ChunkRun>();

/// Pieces of all overlays that it was given to.
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
    /// What it has added to the tally.
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
    /// The same pieces, counted there from now on.
    pub fn tallied_by(mut self, tally: &Tally) -> Self {
        self.tally.0.fetch_sub(self.tallied, Relaxed);
        self.tallied = 0;
        self.tally = tally.clone();
        self.count();
        self
    }

    /// All of it; what stays is empty.
    pub fn take(&mut self) -> Self {
        let empty = Self::default().tallied_by(&self.tally);
        std::mem::replace(self, empty)
    }

    fn count(&mut self) {
        let now = self.pieces.len() as u64;
        // Wraps around when there are fewer.
        self.tally
            .0
            .fetch_add(now.wrapping_sub(self.tallied), Relaxed);
        self.tallied = now;
    }

    /// True while nothing was entered.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Lowest position that was ever entered: the journal is needed from there on.
    pub fn first_position(&self) -> Option<JournalPosition> {
        self.first
    }

    /// Enters a write. Where a newer one is known it stays.
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

    /// Visits the pieces that reach into `[from, to)`, whole, in order.
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

    /// Visits what lies in `[from, to)`, cut to it, in order. Gaps are what the overlay does not
    /// know.
    pub fn visit(&self, from: u64, to: u64, mut visit: impl FnMut(Piece)) {
        self.visit_whole(from, to, |piece| {
            piece.clip(from, to).into_iter().for_each(&mut visit);
        });
    }

    /// The first piece that ends above `from`, whole.
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

    /// Forgets everything from byte `len` on.
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
