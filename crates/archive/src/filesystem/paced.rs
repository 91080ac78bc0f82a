//! Reads files while others leave the disk to it, in pieces so small that others wait for one at
//! most. Backups in the background and scrubs of files read through it.
//!
//! Invariant: the bytes are those of a read of the whole range.

use super::PathError;
use super::open_file::OpenFile;
use std::ops::{ControlFlow, Range};
use units::Part;

/// Largest read at a time. On a disk with arms it takes little more than a millisecond when the arm
/// is there; a request of another process waits for that.
pub const PIECE_BYTES: u64 = 128 << 10;

/// Delays reads so that others have the device first. `backup --background` implements it.
pub trait Pacer: Sync {
    /// Calls `read` until it breaks, each time when the device is idle or after a bounded time.
    /// Meanwhile no other range is read: on a disk with arms, pieces of two ranges in turns would
    /// be seeks. `read` reads at most [`PIECE_BYTES`] and returns the number of bytes. `device`:
    /// the source's device number.
    fn run(&self, device: u64, read: &mut dyn FnMut() -> ControlFlow<u64, u64>);
}

/// Reads a range in pieces, each when `pacer` says so. Ends early when one fails or is shorter than
/// asked for. `read` returns the number of bytes.
pub fn in_pieces<E>(
    pacer: &dyn Pacer,
    device: u64,
    range: Range<u64>,
    mut read: impl FnMut(Range<u64>) -> Result<u64, E>,
) -> Result<(), E> {
    let mut result = Ok(());
    let mut ranges = divided(range).peekable();
    pacer.run(device, &mut || {
        let Some(piece) = ranges.next() else {
            return ControlFlow::Break(0);
        };
        match read(piece.clone()) {
            Ok(count) if count < piece.end - piece.start || ranges.peek().is_none() => {
                ControlFlow::Break(count)
            }
            Ok(count) => ControlFlow::Continue(count),
            Err(e) => {
                result = Err(e);
                ControlFlow::Break(0)
            }
        }
    });
    result
}

/// Divides a range at multiples of [`PIECE_BYTES`].
fn divided(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = (at + 1).next_multiple_of(PIECE_BYTES).min(range.end);
        let piece = (at < range.end).then_some(at..end);
        at = end;
        piece
    })
}

/// Selects how a file is read: at once, or as its device is idle.
#[derive(Clone, Copy)]
pub struct Pace<'p> {
    pacer: Option<(&'p dyn Pacer, u64)>,
}

impl<'p> Pace<'p> {
    /// Reads at once.
    pub const NONE: Self = Self { pacer: None };

    /// Reads a file on the device with this number when `pacer` says so. The kernel stops reading
    /// the file ahead: that would go on while others use the disk.
    pub fn new(pacer: Option<&'p dyn Pacer>, device: u64, file: &OpenFile) -> Self {
        if pacer.is_some() {
            file.expect_random();
        }
        Self {
            pacer: pacer.map(|pacer| (pacer, device)),
        }
    }

    /// Fills `into` from `offset`. Returns fewer bytes only at the end of the file.
    pub fn read(&self, file: &OpenFile, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let Some((pacer, device)) = self.pacer else {
            return file.read_at(offset, into);
        };
        let mut done = 0;
        let range = offset..offset + into.len() as u64;
        in_pieces(pacer, device, range, |piece| {
            let len = (piece.end - piece.start) as usize;
            let into = into.part_mut(done..done + len);
            let into = into.map_err(|e| file.failed("read", e))?;
            let count = file.read_at(piece.start, into)?;
            done += count;
            Ok(count as u64)
        })?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::capture::Directory;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Counting(Mutex<Vec<u64>>);

    impl Pacer for Counting {
        fn run(&self, device: u64, read: &mut dyn FnMut() -> ControlFlow<u64, u64>) {
            assert_eq!(device, 7);
            let mut counts = self.0.lock();
            while let ControlFlow::Continue(count) = {
                let read = read();
                counts.push(match read {
                    ControlFlow::Continue(count) | ControlFlow::Break(count) => count,
                });
                read
            } {
                assert!(count > 0);
            }
        }
    }

    #[test]
    fn others_wait_for_one_piece_at_most() {
        let top = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(top.path().join("file"), &bytes).unwrap();
        let opened = Directory::open(top.path()).unwrap();
        let opened = opened.open_file(c"file").unwrap();
        let counting = Counting::default();
        let pace = Pace::new(Some(&counting), 7, &opened);
        let mut into = vec![0; 400_000];
        assert_eq!(pace.read(&opened, 100_000, &mut into).unwrap(), 200_000);
        assert_eq!(into.get(..200_000), bytes.get(100_000..));
        assert_eq!(*counting.0.lock(), [31_072, 131_072, 37_856]);
        assert_eq!(Pace::NONE.read(&opened, 0, &mut into).unwrap(), 300_000);
        assert_eq!(counting.0.lock().len(), 3);
    }

    #[test]
    fn pieces_end_at_multiples() {
        let one = PIECE_BYTES;
        let found = |range| -> Vec<_> { divided(range).map(|r| (r.start, r.end)).collect() };
        assert_eq!(found(5..5), []);
        assert_eq!(found(0..one), [(0, one)]);
        assert_eq!(found(one - 1..one + 1), [(one - 1, one), (one, one + 1)]);
    }
}
