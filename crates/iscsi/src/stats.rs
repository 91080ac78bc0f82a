//! Names the kinds of commands that are counted. Sessions and workers count with them, the program
//! shows them.
//!
//! Invariant: every command has exactly one kind.

use crate::scsi::action::{Job, Work};
use connections::{KINDS_MAX, RequestKind, Stats, Tally};

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They read blocks.
    Read,
    /// They write blocks, also as a pattern.
    Write,
    /// They make changes durable.
    Flush,
    /// They free blocks.
    Unmap,
    /// All others, and those that were answered with an error.
    Other,
}

/// Names of the kinds, in their order.
const NAMES: [&str; 5] = ["read", "write", "flush", "unmap", "other"];
const _: () = assert!(NAMES.len() <= KINDS_MAX && Kind::Other as usize + 1 == NAMES.len());

/// Returns the number of commands of each kind, with the kind's name.
pub fn commands(stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> {
    NAMES.into_iter().zip(stats.requests_total)
}

impl RequestKind for Kind {
    fn index(self) -> usize {
        self as usize
    }

    fn reads(self) -> bool {
        self == Self::Read
    }

    fn writes(self) -> bool {
        self == Self::Write
    }
}

impl Kind {
    /// Returns the kind of a job.
    pub(crate) fn of(job: &Job) -> Self {
        match job.work {
            Work::Write { .. }
            | Work::OrWrite { .. }
            | Work::CompareAndWrite { .. }
            | Work::WriteSame { .. } => Self::Write,
            Work::Unmap { .. } => Self::Unmap,
            Work::Flush { .. } => Self::Flush,
            Work::Verify { .. }
            | Work::LbaStatus { .. }
            | Work::ModeSelect { .. }
            | Work::PersistentOut { .. } => Self::Other,
        }
    }
}

/// Counts a command that was answered with an error.
pub(crate) fn failed(tally: &mut Tally) {
    tally.failed(Kind::Other);
}
