//! Writes that the layout of a volume does not know yet. [`super::served`] notes them in the
//! client's request, and the next steps tell the layout.
//!
//! Invariant: bounded memory and time. Where there are too many to keep, neighbours become one
//! range with what lies between them, and contents of journals are left out: more is read again,
//! nothing is missed.

use std::collections::VecDeque;

/// Most notes, and most bytes of journals that wait, however much memory there is.
const NOTES_MAX: u64 = 4096;
const JOURNAL_BYTES_MAX: u64 = 256 << 10;
/// Part of the memory that each of them may take.
const PART: u64 = 16;
/// Longest part of a note that is passed on at once, bytes: the layout takes time in proportion to
/// its map there.
pub const PIECE_BYTES: u64 = 32 << 20;
/// A change of this many pieces makes everything unknown: it is a new disk.
const PIECES_MAX: u64 = 4096;

/// A range that was written, and the bytes if they matter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Offset, bytes.
    pub offset_bytes: u64,
    /// Length, bytes.
    pub len_bytes: u64,
    /// Bytes of a journal.
    pub bytes: Option<Box<[u8]>>,
}

impl Note {
    fn end(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }
}

/// See the module.
pub struct Notes {
    notes: VecDeque<Note>,
    notes_max: usize,
    journal_bytes_max: usize,
    journal_bytes: usize,
    /// So much changed that it is best to begin anew.
    is_all: bool,
}

/// The next thing to do.
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Begin anew.
    All,
    /// Tell this.
    Note(Note),
}

impl Notes {
    /// Nothing waits yet. What will takes an eighth of `memory_bytes` at most.
    pub fn new(memory_bytes: u64) -> Self {
        let part = memory_bytes / PART;
        Self {
            notes: VecDeque::new(),
            notes_max: (part / size_of::<Note>() as u64).min(NOTES_MAX) as usize,
            journal_bytes_max: part.min(JOURNAL_BYTES_MAX) as usize,
            journal_bytes: 0,
            is_all: false,
        }
    }

    /// Adds a change. `bytes` are kept as long as there is room for them.
    pub fn add(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        if len_bytes / PIECE_BYTES >= PIECES_MAX {
            self.all();
        }
        if self.is_all {
            return;
        }
        let fits = |bytes: &&[u8]| self.journal_bytes + bytes.len() <= self.journal_bytes_max;
        let bytes: Option<Box<[u8]>> = bytes.filter(fits).map(Into::into);
        let new = Note {
            offset_bytes,
            len_bytes,
            bytes,
        };
        // Sequential writes are one.
        if let Some(last) = self.notes.back_mut()
            && last.bytes.is_none()
            && new.bytes.is_none()
            && last.offset_bytes <= new.offset_bytes
            && new.offset_bytes <= last.end()
        {
            last.len_bytes = last.end().max(new.end()) - last.offset_bytes;
            return;
        }
        self.journal_bytes += new.bytes.as_ref().map_or(0, |bytes| bytes.len());
        self.notes.push_back(new);
        if self.notes.len() > self.notes_max.max(1) {
            self.shorten();
        }
    }

    /// Everything may have changed.
    pub fn all(&mut self) {
        self.clear();
        self.is_all = true;
    }

    /// Nothing waits any more.
    pub fn clear(&mut self) {
        self.notes = VecDeque::new();
        self.journal_bytes = 0;
        self.is_all = false;
    }

    /// Halves the number of notes at least.
    fn shorten(&mut self) {
        let mut notes: Vec<Note> = std::mem::take(&mut self.notes).into();
        self.journal_bytes = 0;
        notes.sort_unstable_by_key(|note| note.offset_bytes);
        for pair in notes.chunks(2) {
            let Some(first) = pair.first() else {
                continue;
            };
            let end = pair.iter().map(Note::end).max().unwrap_or_default();
            self.notes.push_back(Note {
                offset_bytes: first.offset_bytes,
                len_bytes: end - first.offset_bytes,
                bytes: None,
            });
        }
    }

    /// Takes the next note, or a piece of it.
    pub fn next(&mut self) -> Option<Next> {
        if std::mem::take(&mut self.is_all) {
            return Some(Next::All);
        }
        let note = self.notes.front_mut()?;
        if note.len_bytes > PIECE_BYTES && note.bytes.is_none() {
            let piece = Note {
                len_bytes: PIECE_BYTES,
                ..note.clone()
            };
            note.offset_bytes += PIECE_BYTES;
            note.len_bytes -= PIECE_BYTES;
            return Some(Next::Note(piece));
        }
        let note = self.notes.pop_front()?;
        self.journal_bytes -= note.bytes.as_ref().map_or(0, |bytes| bytes.len());
        Some(Next::Note(note))
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty() && !self.is_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(notes: &mut Notes) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        while let Some(next) = notes.next() {
            match next {
                Next::Note(note) => all.push((note.offset_bytes, note.len_bytes)),
                Next::All => all.push((0, u64::MAX)),
            }
        }
        all
    }

    #[test]
    fn sequential_writes_are_one_and_long_ones_come_in_pieces() {
        let mut notes = Notes::new(8 << 20);
        for n in 0..1000 {
            notes.add(n * 4096, 4096, None);
        }
        notes.add(1 << 30, 2 * PIECE_BYTES + 1, None);
        let pieces = [
            (0, 4_096_000),
            (1 << 30, PIECE_BYTES),
            ((1 << 30) + PIECE_BYTES, PIECE_BYTES),
            ((1 << 30) + 2 * PIECE_BYTES, 1),
        ];
        assert_eq!(taken(&mut notes), pieces);
        assert!(notes.is_empty());
    }

    #[test]
    fn too_many_become_fewer_and_none_is_missed() {
        let mut notes = Notes::new(8 << 20);
        let at = |n: u64| (n * 7919 % 100_000) << 20;
        for n in 0..100_000 {
            notes.add(at(n), 512, (n % 3 == 0).then_some(&[1; 4096]));
        }
        assert!(
            notes.notes.len() <= notes.notes_max && notes.journal_bytes <= notes.journal_bytes_max
        );
        let mut all = taken(&mut notes);
        all.sort_unstable();
        let covers = |of: u64| all.iter().any(|(at, len)| (*at..at + len).contains(&of));
        assert!((0..100).all(|n| covers(at(n * 997))));
    }

    #[test]
    fn a_change_of_everything_is_one() {
        let mut notes = Notes::new(8 << 20);
        notes.add(5, 5, None);
        notes.add(0, u64::MAX, None);
        notes.add(5, 5, None);
        assert_eq!(taken(&mut notes), [(0, u64::MAX)]);
    }
}
