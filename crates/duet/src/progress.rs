//! Progress of a task, and its stored form. The owner of a driver stores it.
//!
//! Invariant: bytes that [`TaskProgress::encode`] did not write for this task give an error, never
//! a panic, and cause no allocation out of proportion to their size. Losing the stored form costs
//! repeated work, nothing else.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `QNTTPRGR` |
//! | 2 | version: 1 |
//! | 1 | bits of a part's number, 0 to 62 |
//! | 1 | 1 if there is a position, else 0 |
//! | 8 | tag: which task, over which data |
//! | 8 + 8 | position: object, part |
//! | 8 * 4 | counts: pages done, bytes read, bytes from memory, bytes written |
//! | ... | three sets: done, failed, to do again (see below) |
//! | 8 | XXH3-64 of all bytes before, seed `PRGR` |
//!
//! A set is the number of its runs, then for each run the gap before it (from the second run on,
//! less 1) and its length less 1, all in LEB128. Other numbers are little-endian.

use crate::work::{PART_BITS_MAX, Work, WorkSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: [u8; 8] = *b"QNTTPRGR";
const VERSION: u16 = 1;
const SEED: u64 = u32::from_be_bytes(*b"PRGR") as u64;

/// Reason why bytes are not the progress of this task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgressError {
    /// Fewer bytes than the layout needs.
    #[error("progress of a task: truncated")]
    Truncated,
    /// An object of another kind.
    #[error("progress of a task: not an object of this kind")]
    BadMagic,
    /// A version that this program does not know.
    #[error("progress of a task: version {0} is not known to this program")]
    Version(u16),
    /// The checksum does not match the bytes.
    #[error("progress of a task: checksum: expected {expected:016x}, found {found:016x}")]
    BadChecksum {
        /// The stored checksum.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// The progress of another task.
    #[error("progress of a task: of task {found:016x}, expected {expected:016x}")]
    OtherTask {
        /// The requested tag.
        expected: u64,
        /// The stored tag.
        found: u64,
    },
    /// A field has a value that no writer writes.
    #[error("progress of a task: invalid {0}")]
    Invalid(&'static str),
}

type Result<T> = std::result::Result<T, ProgressError>;

/// Totals of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCounts {
    /// Pages of done units.
    pub pages_done: u64,
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// Bytes found in memory.
    pub bytes_cached: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct TaskProgress {
    /// Last unit of the task's own order up to which nothing is left to do.
    pub position: Option<Work>,
    /// Done units.
    pub done: WorkSet,
    /// Failed units.
    pub failed: WorkSet,
    /// Units before the position that must be done again, were left for the end, or were in
    /// progress.
    pub again: WorkSet,
    /// Totals.
    pub counts: TaskCounts,
}

impl TaskProgress {
    /// Progress of a task that has not begun.
    pub fn new(part_bits: u32) -> Self {
        let none = WorkSet::new(part_bits);
        Self {
            position: None,
            done: none.clone(),
            failed: none.clone(),
            again: none,
            counts: TaskCounts::default(),
        }
    }

    /// Returns the stored form. `tag` identifies the task and its data.
    pub fn encode(&self, tag: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.push(self.done.part_bits() as u8);
        bytes.push(u8::from(self.position.is_some()));
        let Work { object, part } = self.position.unwrap_or_default();
        let TaskCounts {
            pages_done,
            bytes_read,
            bytes_cached,
            bytes_written,
        } = self.counts;
        let numbers = [
            tag,
            object,
            part,
            pages_done,
            bytes_read,
            bytes_cached,
            bytes_written,
        ];
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        for set in [&self.done, &self.failed, &self.again] {
            let ranges = set.ranges();
            put(&mut bytes, ranges.len() as u128);
            let mut end = 0;
            for (nth, range) in ranges.iter().enumerate() {
                put(&mut bytes, range.start - end - u128::from(nth > 0));
                put(&mut bytes, range.end - range.start - 1);
                end = range.end;
            }
        }
        Self::seal(bytes)
    }

    /// Appends the checksum; for tests that craft bytes.
    #[doc(hidden)]
    pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = xxh3_64_with_seed(&bytes, SEED);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Decodes the stored form of the task with this tag.
    pub fn decode(bytes: &[u8], tag: u64) -> Result<Self> {
        let (body, stored) = bytes
            .split_last_chunk::<8>()
            .ok_or(ProgressError::Truncated)?;
        let mut rest = body;
        if take::<8>(&mut rest)? != MAGIC {
            return Err(ProgressError::BadMagic);
        }
        let version = u16::from_le_bytes(take(&mut rest)?);
        if version != VERSION {
            return Err(ProgressError::Version(version));
        }
        let (expected, found) = (u64::from_le_bytes(*stored), xxh3_64_with_seed(body, SEED));
        if expected != found {
            return Err(ProgressError::BadChecksum { expected, found });
        }
        let [part_bits, has_position] = take(&mut rest)?;
        if u32::from(part_bits) > PART_BITS_MAX {
            return Err(ProgressError::Invalid("bits of a part"));
        }
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (found, object, part) = (number()?, number()?, number()?);
        if found != tag {
            return Err(ProgressError::OtherTask {
                expected: tag,
                found,
            });
        }
        let counts = TaskCounts {
            pages_done: number()?,
            bytes_read: number()?,
            bytes_cached: number()?,
            bytes_written: number()?,
        };
        let position = match (has_position, object, part) {
            (1, object, part) => Some(Work { object, part }),
            (0, 0, 0) => None,
            _ => return Err(ProgressError::Invalid("position")),
        };
        let mut set = || take_set(&mut rest, u32::from(part_bits));
        let (done, failed, again) = (set()?, set()?, set()?);
        if !rest.is_empty() {
            return Err(ProgressError::Invalid("length"));
        }
        Ok(Self {
            position,
            done,
            failed,
            again,
            counts,
        })
    }
}

fn take_set(rest: &mut &[u8], part_bits: u32) -> Result<WorkSet> {
    let mut set = WorkSet::new(part_bits);
    let runs = take_varint(rest)?;
    let mut end = 0u128;
    for nth in 0..runs {
        let gap = take_varint(rest)?;
        let len = take_varint(rest)?;
        let start = end.checked_add(gap + u128::from(nth > 0));
        let range = start.and_then(|start| Some(start..start.checked_add(len)?.checked_add(1)?));
        let range = range.ok_or(ProgressError::Invalid("run"))?;
        end = range.end;
        if !set.insert_range(range) {
            return Err(ProgressError::Invalid("run"));
        }
    }
    Ok(set)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, left) = rest
        .split_first_chunk::<N>()
        .ok_or(ProgressError::Truncated)?;
    *rest = left;
    Ok(*taken)
}

/// Decodes LEB128 of at most eighteen bytes (126 bits).
fn take_varint(rest: &mut &[u8]) -> Result<u128> {
    let mut value = 0;
    for shift in (0..126).step_by(7) {
        let [byte] = take(rest)?;
        value |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProgressError::Invalid("varint"))
}

fn put(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests;
