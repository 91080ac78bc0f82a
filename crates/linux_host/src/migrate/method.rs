//! How extents are exchanged with a donor: the trait that each file system's method implements, and
//! what it works on. `migrate` chooses the method.
//!
//! Invariant of each method: at any time, after a crash too, each byte of the file is what writers
//! made it; a method that cannot keep this up fails instead.

use super::donor::Donor;
use super::error::MigrationError;
use super::pace::{PART_BYTES, Pace};
use std::fs::File;
use std::ops::Range;

/// Runs of a file that are to be moved into a donor's blocks.
pub(super) struct Job<'a> {
    pub file: &'a File,
    /// Its length when the job began.
    pub size: u64,
    pub donor: &'a Donor,
    /// Written ranges, ascending, in whole units.
    pub runs: &'a [Range<u64>],
    /// The larger of the system's page and the file system's block, bytes.
    pub unit: u64,
    /// The file system's block, bytes.
    pub block: u64,
    /// When its I/O is done.
    pub pace: &'a Pace,
}

/// Ranges of a file, each with its place in the donor, ascending in both.
pub(super) type Placed = Vec<(Range<u64>, u64)>;

impl Job<'_> {
    /// Yields each run with its place in the donor, where all runs follow one another.
    pub fn placed(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        let mut to = 0;
        self.runs.iter().map(move |run| {
            let at = to;
            to += run.end - run.start;
            (run.clone(), at)
        })
    }

    /// Returns what is moved at once: all of it, or parts of [`PART_BYTES`] at most if the device
    /// is left to others in between.
    pub fn parts(&self) -> Vec<Placed> {
        let part_bytes = match self.pace.is_paced() {
            true => PART_BYTES,
            false => u64::MAX,
        };
        let mut parts: Vec<Placed> = Vec::new();
        let mut left = 0;
        for (mut run, mut to) in self.placed() {
            while run.start < run.end {
                if left == 0 {
                    parts.push(Vec::new());
                    left = part_bytes;
                }
                let bytes = (run.end - run.start).min(left);
                let piece = (run.start..run.start + bytes, to);
                parts
                    .last_mut()
                    .into_iter()
                    .for_each(|part| part.push(piece.clone()));
                run.start += bytes;
                to += bytes;
                left -= bytes;
            }
        }
        parts
    }
}

/// I/O of a migration, and what it achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Bytes that lie in the donor's blocks now.
    pub bytes: u64,
    /// Bytes read, from memory or the device.
    pub read_bytes: u64,
    /// Bytes of the ranges that were in memory before.
    pub cached_bytes: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Parts that were tried again because of writers.
    pub retries: u64,
}

impl Migrated {
    /// Adds what another migration did.
    pub fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.read_bytes += other.read_bytes;
        self.cached_bytes += other.cached_bytes;
        self.written_bytes += other.written_bytes;
        self.retries += other.retries;
    }
}

/// Exchanges extents on a file system.
pub(super) trait Method {
    /// The file has to be open for writing.
    fn needs_writing(&self) -> bool;

    /// Exchanges the extents of the job. Counts what was done even if it fails in the middle.
    fn exchange(&self, job: &Job<'_>, moved: &mut Migrated) -> Result<(), MigrationError>;
}

/// Attempts at a part that writers keep changing.
pub(super) const ATTEMPTS: u32 = 20;
