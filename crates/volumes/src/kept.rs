//! Kept writes: no checkpoint can take them, because data below them is damaged. They stay in the
//! journal.
//!
//! Checkpoints, writers and the server call this.
//! Invariant: damage to one volume affects no other. Its kept writes count as used neither in the
//! journal nor in memory, so that other volumes continue. A volume that keeps more than a share
//! refuses writes.

use media::MediaErrorKind;
use std::ops::Range;
use store::{StoreError, StoreErrorKind};

/// Kept writes of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptRanges {
    /// Ranges of the volume in ascending order, bytes.
    pub ranges: Vec<Range<u64>>,
    /// Why the first range cannot be checkpointed.
    pub why: String,
    /// Approximate bytes in the journal.
    pub bytes: u64,
    /// Pieces in memory.
    pub pieces: u64,
}

impl KeptRanges {
    /// Creates it from ascending `ranges`.
    pub fn new(ranges: &[Range<u64>], why: &str) -> Self {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range.clone()),
            }
        }
        Self {
            ranges: joined,
            why: why.to_owned(),
            bytes: 0,
            pieces: 0,
        }
    }
}

/// Kept writes of a volume, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWrites {
    /// Name of the volume.
    pub name: String,
    /// First ranges of the volume in ascending order, bytes.
    pub ranges: Vec<Range<u64>>,
    /// Why the first range cannot be checkpointed.
    pub why: String,
    /// Approximate bytes in the journal.
    pub bytes: u64,
    /// The volume refuses writes, because it keeps too many.
    pub refuses: bool,
}

impl std::fmt::Display for KeptWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume {}: writes to", self.name)?;
        match self.ranges.as_slice() {
            [range] => write!(f, " bytes {} to {}", range.start, range.end)?,
            [first, .., last] => {
                let ranges = self.ranges.len();
                write!(
                    f,
                    " {ranges} ranges in bytes {} to {}",
                    first.start, last.end
                )?;
            }
            [] => {}
        }
        write!(
            f,
            " stay in the journal, because the data below them is damaged: {}",
            self.why
        )?;
        match self.refuses {
            true => f.write_str("; the volume accepts no more writes"),
            false => Ok(()),
        }
    }
}

/// Returns true for errors of a damaged place. Errors of the process or of the whole pool are no
/// damage.
pub(super) fn is_damage(e: &StoreError) -> bool {
    e.is_corruption() || e.kind == StoreErrorKind::Media(MediaErrorKind::Io)
}
