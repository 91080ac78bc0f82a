//! Reads around sectors that a device cannot read. [`super::RawImage`] calls this when a read has
//! failed.
//!
//! Invariant: a byte that the device can read is read. What it cannot read is zeroes, and is in the
//! list; or the error says where it is.

use std::io;
use std::ops::Range;
use units::Part;

/// Smallest unit that is read by itself, bytes: the page cache reads no less.
const BLOCK_BYTES: u64 = 4096;

/// Ranges that could not be read, in order, apart from each other. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRanges(Vec<Range<u64>>);

impl BadRanges {
    /// Returns the ranges.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// Returns their size, bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    fn add(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }
}

/// Returns true for the errors of a device that cannot read a sector.
pub(super) fn is_bad(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_medium = [Errno::IO, Errno::NODATA, Errno::ILSEQ].map(|e| Some(e.raw_os_error()));
    of_medium.contains(&error.raw_os_error())
}

/// Reads block by block from `offset`. Returns the number of bytes, fewer than `into` only at the
/// end. Without `skips`, the first bad block is an error that says where it is.
pub(super) fn read_around(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    offset: u64,
    into: &mut [u8],
    skips: bool,
    bad: &mut BadRanges,
) -> io::Result<usize> {
    let mut done = 0;
    loop {
        let at = offset + done as u64;
        let in_block = (BLOCK_BYTES - at % BLOCK_BYTES) as usize;
        let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) else {
            return Ok(done);
        };
        let block = rest.len().min(in_block);
        let block = rest.part_mut(..block)?;
        match read(block, at) {
            Ok(0) => return Ok(done),
            Ok(count) => done += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if is_bad(&e) => {
                bad.add(at..at + block.len() as u64);
                if !skips {
                    let why = format!("{} at byte {at}", units::reason(&e));
                    return Err(io::Error::other(why));
                }
                block.fill(0);
                done += block.len();
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of four and a half blocks whose blocks 1 and 2 cannot be read.
    fn device(into: &mut [u8], at: u64) -> io::Result<usize> {
        const LEN: u64 = BLOCK_BYTES * 9 / 2;
        let to = (at + into.len() as u64).min(LEN);
        if at < 3 * BLOCK_BYTES && to > BLOCK_BYTES {
            return Err(io::Error::from_raw_os_error(5));
        }
        let count = to.saturating_sub(at) as usize;
        into[..count].fill(7);
        Ok(count)
    }

    #[test]
    fn zeroes_stand_for_what_cannot_be_read_and_for_nothing_else() {
        let mut into = vec![1; 6 * BLOCK_BYTES as usize];
        let mut bad = BadRanges::default();
        let read = read_around(device, 100, &mut into, true, &mut bad).unwrap();
        assert_eq!(read as u64, BLOCK_BYTES * 9 / 2 - 100);
        let expected = BLOCK_BYTES..3 * BLOCK_BYTES;
        assert_eq!(bad.ranges(), std::slice::from_ref(&expected));
        assert_eq!(bad.bytes(), 2 * BLOCK_BYTES);
        let zeroes = into[..read].iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeroes as u64, bad.bytes());
    }

    #[test]
    fn without_leave_to_skip_the_error_says_where() {
        let mut into = vec![1; 6 * BLOCK_BYTES as usize];
        let mut bad = BadRanges::default();
        let error = read_around(device, 0, &mut into, false, &mut bad).unwrap_err();
        assert_eq!(error.to_string(), "input/output error at byte 4096");
    }
}
