//! Outcome of a defragmentation of files. `host_defrag` sums it up, the program shows it.
//!
//! Invariant: plain values.

use linux_host::{Migrated, Report, Skipped};
use std::path::PathBuf;

/// Outcome for a file, or for all.
#[derive(Clone, Debug, Default)]
pub struct HostDefragOutcome {
    /// Pieces of the files, before.
    pub pieces_before: u64,
    /// The same, after.
    pub pieces_after: u64,
    /// Bytes of the ranges that were to be moved.
    pub planned_bytes: u64,
    /// Ranges that were moved.
    pub moved_ranges: u64,
    /// I/O, and bytes moved.
    pub migrated: Migrated,
    /// Ranges left alone, by reason.
    pub left_alone: Vec<HostLeftAlone>,
    /// The limit on bytes was reached.
    pub is_cut: bool,
}

/// A file that is done.
#[derive(Clone, Debug)]
pub struct HostFile {
    /// Its path when it was planned.
    pub path: PathBuf,
    /// Work that was done with it.
    pub outcome: HostDefragOutcome,
}

/// Ranges left alone for one reason.
#[derive(Clone, Debug)]
pub struct HostLeftAlone {
    /// Name of the reason, for programs.
    pub name: &'static str,
    /// The reason.
    pub text: String,
    /// Number of ranges.
    pub ranges: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl HostDefragOutcome {
    /// Returns true if something was moved, planned or left alone.
    pub fn is_worth_showing(&self) -> bool {
        self.planned_bytes > 0 || !self.left_alone.is_empty()
    }

    /// Adds what a file came to.
    pub(super) fn add_pieces(&mut self, before: u64, after: u64) {
        self.pieces_before += before;
        self.pieces_after += after;
    }

    /// Adds ranges that were left alone.
    pub(super) fn leave(&mut self, skipped: Skipped) {
        let left = HostLeftAlone {
            name: skipped.why.name(),
            text: skipped.why.to_string(),
            ranges: skipped.ranges,
            bytes: skipped.bytes,
        };
        self.leave_also(left);
    }

    fn leave_also(&mut self, left: HostLeftAlone) {
        match self.left_alone.iter_mut().find(|l| l.name == left.name) {
            Some(known) => {
                known.ranges += left.ranges;
                known.bytes += left.bytes;
            }
            None => self.left_alone.push(left),
        }
    }

    /// Adds what was moved of one unit, and leaves the reason to stop to the caller.
    pub(super) fn moved(&mut self, report: Report) {
        self.migrated.add(report.migrated);
        self.moved_ranges += report.moved;
        self.is_cut |= report.is_cut;
        for skipped in report.skipped {
            self.leave(skipped);
        }
    }

    /// Adds all but the pieces.
    pub(super) fn add_work(&mut self, other: &Self) {
        self.planned_bytes += other.planned_bytes;
        self.moved_ranges += other.moved_ranges;
        self.migrated.add(other.migrated);
        self.is_cut |= other.is_cut;
        for left in &other.left_alone {
            self.leave_also(left.clone());
        }
    }
}
