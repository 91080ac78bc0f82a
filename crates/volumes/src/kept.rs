//! Writes that no checkpoint can take, because what lies below them is damaged: they stay in the
//! journal.
//!
//! Invariant: damage to one volume is that volume's. What it keeps does not count as filled,
//! neither in the journal nor in memory, so that others go on; past a share it takes no more
//! writes. Called by rounds, writers, and the program for what it says.

use media::MediaErrorKind;
use std::ops::Range;
use store::{StoreError, StoreErrorKind};

/// What one volume keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Ascending, bytes of the volume.
    pub ranges: Vec<Range<u64>>,
    /// Why the first of them cannot be checkpointed.
    pub why: String,
    /// About so many bytes of the journal ...
    pub bytes: u64,
    /// ... and pieces in memory.
    pub pieces: u64,
}

impl Kept {
    /// `ranges` ascend.
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

/// Writes of a volume that stay in the journal, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWrites {
    /// The volume.
    pub name: String,
    /// Bytes of the volume, ascending; the first ones.
    pub ranges: Vec<Range<u64>>,
    /// Why the first of them cannot be checkpointed.
    pub why: String,
    /// Bytes of the journal, about.
    pub bytes: u64,
    /// Too many: the volume takes no more writes.
    pub refuses: bool,
}

impl std::fmt::Display for KeptWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume {}: what was written to", self.name)?;
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
            " stays in the journal, because what lies below is damaged: {}",
            self.why
        )?;
        match self.refuses {
            true => f.write_str("; the volume takes no more writes"),
            false => Ok(()),
        }
    }
}

/// True for what a damaged place causes; what the process or the pool as a whole suffers is not.
pub(super) fn is_damage(e: &StoreError) -> bool {
    e.is_corruption() || e.kind == StoreErrorKind::Media(MediaErrorKind::Io)
}
