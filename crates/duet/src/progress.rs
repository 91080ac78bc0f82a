//! How far a task has come, and its stored form.
//!
//! Invariant: bytes that were not written by [`Progress::encode`] for this task are an error, never
//! a panic, and take no more memory than they justify. Where they are stored is the caller's business;
//! losing them costs the work that was done, nothing else. Called by the driver's owner.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `QNTTPRGR` |
//! | 2 | version: 1 |
//! | 1 | bits of a part's number, 0 to 62 |
//! | 1 | 1 if there is a position, else 0 |
//! | 8 | tag: which task, over what |
//! | 8 + 8 | position: object, part |
//! | 8 * 4 | counts: pages done, bytes read, bytes from memory, bytes written |
//! | ... | work that is done, that failed, that is to be done again: for each set the number of runs, then for each run the gap before it (from the second on less 1) and its length less 1; all LEB128 |
//! | 8 | XXH3-64 of all bytes before, seed `PRGR` |
//!
//! Numbers are little-endian.

use crate::work::{PART_BITS_MAX, Work, WorkSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: [u8; 8] = *b"QNTTPRGR";
const VERSION: u16 = 1;
const SEED: u64 = u32::from_be_bytes(*b"PRGR") as u64;

/// Why bytes are not the progress of this task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressError {
    /// Fewer bytes than the layout needs.
    Truncated,
    /// Something else.
    BadMagic,
    /// A version that this program does not know.
    Version(u16),
    /// The checksum does not fit the bytes.
    BadChecksum {
        /// What they say.
        expected: u64,
        /// What they give.
        found: u64,
    },
    /// The progress of another task.
    OtherTask {
        /// The tag that was asked for.
        expected: u64,
        /// The tag that is there.
        found: u64,
    },
    /// A field has a value that no writer writes.
    Invalid(&'static str),
}

impl std::fmt::Display for ProgressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("progress of a task: ")?;
        match self {
            Self::Truncated => f.write_str("truncated"),
            Self::BadMagic => f.write_str("not an object of this kind"),
            Self::Version(v) => write!(f, "version {v} is not known to this program"),
            Self::BadChecksum { expected, found } => {
                write!(f, "checksum: expected {expected:016x}, found {found:016x}")
            }
            Self::OtherTask { expected, found } => {
                write!(f, "of task {found:016x}, expected {expected:016x}")
            }
            Self::Invalid(field) => write!(f, "invalid {field}"),
        }
    }
}

impl std::error::Error for ProgressError {}

type Result<T> = std::result::Result<T, ProgressError>;

/// What was done, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Pages of the work that is done.
    pub pages_done: u64,
    /// Bytes read from devices for it.
    pub bytes_read: u64,
    /// Bytes that were in memory.
    pub bytes_cached: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The last work in the task's own order before which nothing is left to do.
    pub position: Option<Work>,
    /// Work that is done.
    pub done: WorkSet,
    /// Work that failed.
    pub failed: WorkSet,
    /// Work behind the position that is to be done again, or was begun.
    pub again: WorkSet,
    /// Numbers.
    pub counts: Counts,
}

impl Progress {
    /// Of a task that has not begun.
    pub fn new(part_bits: u32) -> Self {
        let none = WorkSet::new(part_bits);
        Self {
            position: None,
            done: none.clone(),
            failed: none.clone(),
            again: none,
            counts: Counts::default(),
        }
    }

    /// The stored form; `tag` says which task over what this is.
    pub fn encode(&self, tag: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.push(self.done.part_bits() as u8);
        bytes.push(u8::from(self.position.is_some()));
        let Work { object, part } = self.position.unwrap_or_default();
        let Counts {
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

    /// The bytes and their checksum; for tests that craft bytes.
    #[doc(hidden)]
    pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = xxh3_64_with_seed(&bytes, SEED);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Reads the stored form of the task with this tag.
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
        let counts = Counts {
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

/// LEB128, at most eighteen bytes (126 bits).
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
