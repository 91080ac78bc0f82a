//! Compares pieces of a file with the snapshot's fingerprints. The task calls this.
//!
//! Invariant: a piece equals the snapshot's only if its bytes have its fingerprint. The stored
//! chunk is read from the pool only to find out which bytes of a piece differ.

use super::opened::OpenedFile;
use super::ranges::{add, differences};
use archive::backup::{Pacer, in_pieces};
use chunking::is_zero;
use format::recipe::{Layout, ObjectRoot};
use linux_host::Way;
use std::io;
use std::ops::{ControlFlow, Range};
use store::{Reader, Result};
use units::Fingerprint;

/// Bytes that are read with one request.
pub(crate) const REQUEST_BYTES: u64 = 1 << 20;
/// Errors are located to this size.
const BLOCK_BYTES: u64 = 4096;

/// A chunk or hole of a file in the snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub offset: u64,
    pub len: u64,
    pub fingerprint: Fingerprint,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    pub fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }
}

/// Returns the pieces that begin in `within`, until they are a request together or are followed by
/// another kind (chunk or hole).
pub(crate) fn pieces(reader: &Reader, root: &ObjectRoot, within: Range<u64>) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut bytes, end) = (0, within.end.min(root.len));
    if within.start >= end {
        return Ok(pieces);
    }
    reader.visit_pieces(root, within.start, end, &mut |offset, len, fingerprint| {
        // It began in the part before.
        if offset < within.start {
            return Ok(ControlFlow::Continue(()));
        }
        let first = pieces.first();
        let is_other = first.is_some_and(|f| f.fingerprint.is_hole() != fingerprint.is_hole());
        if is_other || bytes > 0 && bytes + len > REQUEST_BYTES {
            return Ok(ControlFlow::Break(()));
        }
        bytes += len;
        pieces.push(Piece {
            offset,
            len,
            fingerprint,
        });
        Ok(match fingerprint.is_hole() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    Ok(pieces)
}

/// Result of comparing.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub rotten: Vec<Range<u64>>,
    pub unreadable: Vec<Range<u64>>,
    pub bytes_read: u64,
    /// Of these, bytes whose pages were dropped from memory first.
    pub bytes_dropped_first: u64,
    pub bytes_unproven: u64,
    pub bytes_in_holes: u64,
    /// The file ended before the piece: it is being changed.
    pub is_short: bool,
}

impl Compared {
    fn has_read(&mut self, bytes: &[u8], unproven: u64, way: Way) {
        let read = (bytes.len() as u64).saturating_sub(unproven);
        self.bytes_unproven += unproven;
        self.bytes_read += read;
        if way == Way::Dropped {
            self.bytes_dropped_first += read;
        }
    }

    /// Adds what was found in a part of the same file.
    pub fn absorb(&mut self, other: Self) {
        other
            .rotten
            .into_iter()
            .for_each(|r| add(&mut self.rotten, r));
        let unreadable = other.unreadable.into_iter();
        unreadable.for_each(|r| add(&mut self.unreadable, r));
        self.bytes_read += other.bytes_read;
        self.bytes_dropped_first += other.bytes_dropped_first;
        self.bytes_unproven += other.bytes_unproven;
        self.bytes_in_holes += other.bytes_in_holes;
        self.is_short |= other.is_short;
    }
}

/// Compares a file with what the snapshot has.
pub(crate) struct Comparison<'c> {
    pub reader: &'c Reader,
    pub pacer: Option<&'c dyn Pacer>,
    pub file: &'c mut OpenedFile,
    pub root: ObjectRoot,
}

impl Comparison<'_> {
    fn way(&self) -> Way {
        self.file.medium.way()
    }

    /// Returns true if the bytes are those of the snapshot.
    fn equals(&self, piece: &Piece, bytes: &[u8]) -> bool {
        if bytes.len() as u64 != piece.len {
            return false;
        }
        let found = match self.root.layout {
            // The last chunk is padded.
            Layout::Fixed(log2) if piece.len < 1 << log2 => {
                let mut padded = bytes.to_vec();
                padded.resize(1 << log2, 0);
                self.reader.fingerprint(&padded)
            }
            _ => self.reader.fingerprint(bytes),
        };
        found == piece.fingerprint
    }

    /// Compares a piece in memory, without any I/O. False: it is not in memory, or differs there.
    pub fn in_memory(&mut self, piece: &Piece) -> bool {
        let Ok(Some(bytes)) = self.file.medium.read_in_memory(piece.range()) else {
            return false;
        };
        let bytes = bytes.to_vec();
        self.equals(piece, &bytes)
    }

    /// Reads a range from the medium, when the disk may be used.
    fn read(&mut self, range: Range<u64>) -> io::Result<(Vec<u8>, u64)> {
        let medium = &mut self.file.medium;
        let mut once = |range: Range<u64>| {
            let read = medium.read(range)?;
            let unproven = read.unproven.iter().map(|r| r.end - r.start).sum::<u64>();
            Ok((read.bytes.to_vec(), unproven))
        };
        let Some(pacer) = self.pacer else {
            return once(range);
        };
        let (mut all, mut all_unproven) = (Vec::new(), 0);
        in_pieces(pacer, self.file.entry.device, range, |piece| {
            let (bytes, unproven) = once(piece)?;
            all.extend_from_slice(&bytes);
            all_unproven += unproven;
            Ok(bytes.len() as u64)
        })
        .map(|()| (all, all_unproven))
    }

    /// Compares neighbouring chunks with the bytes of the medium.
    pub fn chunks(&mut self, pieces: &[Piece]) -> Result<io::Result<Compared>> {
        let mut compared = Compared::default();
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Ok(Ok(compared));
        };
        let (bytes, unproven) = match self.read(first.offset..last.end()) {
            Ok(read) => read,
            Err(e) if is_of_medium(&e) => return self.around_errors(pieces),
            Err(e) => return Ok(Err(e)),
        };
        compared.has_read(&bytes, unproven, self.way());
        for piece in pieces {
            let from = (piece.offset - first.offset) as usize;
            let to = (piece.end() - first.offset) as usize;
            let Some(found) = bytes.get(from..to) else {
                compared.is_short = true;
                break;
            };
            if !self.equals(piece, found) {
                self.locate(piece, piece.offset, found, &mut compared)?;
            }
        }
        Ok(Ok(compared))
    }

    /// Finds the bytes of a piece that differ from the stored chunk; `found` begins at `at`.
    fn locate(&self, piece: &Piece, at: u64, found: &[u8], compared: &mut Compared) -> Result<()> {
        match self.reader.piece(&self.root, &piece.fingerprint, piece.len) {
            Ok(chunk) => {
                let from = (at - piece.offset) as usize;
                let expected = chunk.get(from..from + found.len()).unwrap_or_default();
                differences(expected, found, at, &mut |range| {
                    add(&mut compared.rotten, range);
                });
            }
            // The fingerprint says that the bytes differ, and the pool cannot say where.
            Err(e) if e.is_corruption() => {
                if at == piece.offset && found.len() as u64 == piece.len {
                    add(&mut compared.rotten, piece.range());
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Compares pieces of which the device does not return a part, block by block.
    fn around_errors(&mut self, pieces: &[Piece]) -> Result<io::Result<Compared>> {
        let mut compared = Compared::default();
        for piece in pieces {
            match self.read(piece.range()) {
                Ok((bytes, unproven)) => {
                    compared.has_read(&bytes, unproven, self.way());
                    compared.is_short |= (bytes.len() as u64) < piece.len;
                    if !compared.is_short && !self.equals(piece, &bytes) {
                        self.locate(piece, piece.offset, &bytes, &mut compared)?;
                    }
                    continue;
                }
                Err(e) if is_of_medium(&e) => {}
                Err(e) => return Ok(Err(e)),
            }
            let mut at = piece.offset;
            while at < piece.end() {
                let end = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(piece.end());
                match self.read(at..end) {
                    Ok((bytes, unproven)) => {
                        compared.has_read(&bytes, unproven, self.way());
                        compared.is_short |= (bytes.len() as u64) < end - at;
                        self.locate(piece, at, &bytes, &mut compared)?;
                    }
                    Err(e) if is_of_medium(&e) => add(&mut compared.unreadable, at..end),
                    Err(e) => return Ok(Err(e)),
                }
                at = end;
            }
        }
        Ok(Ok(compared))
    }

    /// Compares a part of a hole: zeroes in the snapshot. Returns where it ended, at most at `end`:
    /// after one request of data.
    pub fn hole(&mut self, at: u64, end: u64) -> io::Result<(u64, Compared)> {
        let mut compared = Compared::default();
        let data = self.file.medium.next_data(at, end)?;
        compared.bytes_in_holes = data - at;
        let to = end.min(data.saturating_add(REQUEST_BYTES));
        if data < to {
            match self.read(data..to) {
                Ok((bytes, unproven)) => {
                    compared.has_read(&bytes, unproven, self.way());
                    compared.is_short = (bytes.len() as u64) < to - data;
                    if !is_zero(&bytes) {
                        let zeroes = vec![0; bytes.len()];
                        differences(&zeroes, &bytes, data, &mut |range| {
                            add(&mut compared.rotten, range);
                        });
                    }
                }
                Err(e) if is_of_medium(&e) => add(&mut compared.unreadable, data..to),
                Err(e) => return Err(e),
            }
        }
        Ok((to, compared))
    }
}

/// Returns true for errors that mean that the medium does not return the bytes.
fn is_of_medium(error: &io::Error) -> bool {
    /// `EIO`, `ENODATA`, `EBADMSG`, `EILSEQ`, `ETIMEDOUT`, `EUCLEAN`, `EREMOTEIO`: the same numbers
    /// on all architectures that the kernel's generic table serves.
    const OF_MEDIUM: [i32; 7] = [5, 61, 74, 84, 110, 117, 121];
    error
        .raw_os_error()
        .is_some_and(|number| OF_MEDIUM.contains(&number))
}
