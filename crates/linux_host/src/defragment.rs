//! Defragments ranges of a file in bounded steps. The maintenance task of `quintet host defrag run`
//! calls this.
//!
//! Invariant: a step moves at most [`STEP_BYTES`], and only ranges that lie in more pieces than one
//! when the step begins. What was done is counted, whatever happens next.

use crate::extents::fragments;
use crate::migrate::{Migrated, MigrationError, Target};
use fragpicker::WINDOW_BYTES;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes that a step moves at most.
pub const STEP_BYTES: u64 = 8 << 20;

/// Ranges that are moved with one donor at most.
const BATCH_MAX: usize = 64;

/// Limits on a defragmentation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Bytes to write at most; none: no limit. Copies that writers make useless come on top.
    pub bytes_max: Option<u64>,
    /// Move extents that other files or snapshots own too.
    pub moves_shared: bool,
}

/// Outcome of a defragmentation.
#[derive(Debug, Default)]
pub struct Report {
    /// I/O, and bytes moved.
    pub migrated: Migrated,
    /// Ranges that were moved.
    pub moved: u64,
    /// Pieces of all ranges that were looked at, before.
    pub fragments_before: u64,
    /// The same, after.
    pub fragments_after: u64,
    /// Ranges left alone, by reason.
    pub skipped: Vec<Skipped>,
    /// The limit on bytes was reached.
    pub is_cut: bool,
    /// Reason for which the whole file was given up.
    pub stopped_by: Option<MigrationError>,
}

/// Ranges left alone for one reason.
#[derive(Debug)]
pub struct Skipped {
    /// The reason.
    pub why: MigrationError,
    /// Number of ranges.
    pub ranges: u64,
    /// Their written bytes.
    pub bytes: u64,
}

impl Report {
    fn skip(&mut self, why: MigrationError, bytes: u64) {
        let ranges = 1;
        Skipped { why, ranges, bytes }.sum_into(&mut self.skipped);
    }
}

impl Skipped {
    /// Adds this to a list that has each reason once.
    pub fn sum_into(self, list: &mut Vec<Self>) {
        match list.iter_mut().find(|s| s.why.name() == self.why.name()) {
            Some(known) => {
                known.ranges += self.ranges;
                known.bytes += self.bytes;
            }
            None => list.push(self),
        }
    }
}

/// A defragmentation of one file.
pub struct FileDefrag<'a> {
    target: &'a Target,
    limits: Limits,
    waiting: VecDeque<Range<u64>>,
    /// Ranges that the next batch has at most.
    batch_max: usize,
    report: Report,
}

/// A range in several pieces.
struct Fragmented {
    range: Range<u64>,
    pieces: u64,
    /// Written bytes.
    bytes: u64,
}

impl<'a> FileDefrag<'a> {
    /// Begins with ranges that are ascending and disjoint. Adjacent ones are moved together.
    pub fn new(
        target: &'a Target,
        ranges: impl IntoIterator<Item = Range<u64>>,
        limits: Limits,
    ) -> Self {
        let mut waiting: VecDeque<Range<u64>> = VecDeque::new();
        for range in ranges {
            match waiting.back_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => waiting.push_back(range),
            }
        }
        Self {
            target,
            limits,
            waiting,
            batch_max: BATCH_MAX,
            report: Report::default(),
        }
    }

    /// Returns what was done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Ends it, and returns what was done.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// Moves the next ranges, or leaves them alone. Returns false when there is nothing more to do.
    pub fn step(&mut self) -> bool {
        let stopped = self.take_batch();
        if let Err(why) = stopped {
            self.report.stopped_by = Some(why);
            self.waiting.clear();
        }
        !self.waiting.is_empty()
    }

    /// Collects fragmented ranges up to the limits of a step, and moves them with one donor: what a
    /// donor costs in metadata is paid once.
    fn take_batch(&mut self) -> Result<(), MigrationError> {
        let mut batch: Vec<Fragmented> = Vec::new();
        let mut batch_bytes = 0;
        while batch.len() < self.batch_max
            && let Some(mut range) = self.waiting.pop_front()
        {
            if range.end - range.start > STEP_BYTES {
                let middle = range.start + STEP_BYTES;
                self.waiting.push_front(middle..range.end);
                range.end = middle;
            }
            let (pieces, bytes) = self.measure(&range)?;
            if pieces <= 1 {
                self.count(pieces, pieces);
                self.report.skip(MigrationError::NothingToGain, bytes);
                continue;
            }
            let written = self.report.migrated.written_bytes + batch_bytes;
            let limit = self.limits.bytes_max;
            if limit.is_some_and(|limit| limit.saturating_sub(written) < bytes) {
                self.report.is_cut = true;
                self.waiting.clear();
                break;
            }
            if batch_bytes + bytes > STEP_BYTES && !batch.is_empty() {
                self.waiting.push_front(range);
                break;
            }
            batch_bytes += bytes;
            batch.push(Fragmented {
                range,
                pieces,
                bytes,
            });
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.take(batch),
        }
    }

    fn take(&mut self, batch: Vec<Fragmented>) -> Result<(), MigrationError> {
        let ranges: Vec<Range<u64>> = batch.iter().map(|one| one.range.clone()).collect();
        let shared = self.limits.moves_shared;
        let outcome = self
            .target
            .relocate(&ranges, shared, &mut self.report.migrated);
        match outcome {
            Ok(()) => {
                self.batch_max = (self.batch_max * 2).min(BATCH_MAX);
                for one in batch {
                    self.report.moved += 1;
                    let (after, _) = self.measure(&one.range)?;
                    self.count(one.pieces, after);
                }
                Ok(())
            }
            Err(why)
                if batch.len() > 1
                    && (why.is_of_range() || matches!(why, MigrationError::NoSpace)) =>
            {
                self.batch_max = (batch.len() / 2).max(1);
                self.try_again(batch)
            }
            Err(why) => {
                let mut batch = batch;
                match batch.pop() {
                    Some(one) => self.leave(one, why),
                    None => Err(why),
                }
            }
        }
    }

    /// Queues what a batch did not move, for smaller batches.
    fn try_again(&mut self, batch: Vec<Fragmented>) -> Result<(), MigrationError> {
        for one in batch.into_iter().rev() {
            let (after, _) = self.measure(&one.range)?;
            if after <= 1 {
                self.report.moved += 1;
                self.count(one.pieces, after);
            } else {
                self.waiting.push_front(one.range);
            }
        }
        Ok(())
    }

    /// Leaves a range alone, or moves its halves.
    fn leave(&mut self, one: Fragmented, why: MigrationError) -> Result<(), MigrationError> {
        let range = one.range;
        match why {
            // There may be room for shorter pieces.
            MigrationError::FreeSpaceFragmented | MigrationError::Shared
                if range.end - range.start > WINDOW_BYTES =>
            {
                let windows = (range.end - range.start).div_ceil(WINDOW_BYTES);
                let middle = range.start + windows / 2 * WINDOW_BYTES;
                self.waiting.push_front(middle..range.end);
                self.waiting.push_front(range.start..middle);
                Ok(())
            }
            why if why.is_of_range() => {
                let (after, _) = self.measure(&range)?;
                self.count(one.pieces, after);
                self.report.skip(why, one.bytes);
                Ok(())
            }
            why => {
                self.count(one.pieces, one.pieces);
                Err(why)
            }
        }
    }

    fn count(&mut self, before: u64, after: u64) {
        self.report.fragments_before += before;
        self.report.fragments_after += after;
    }

    /// Returns the fragments of a range, and its written bytes.
    fn measure(&self, range: &Range<u64>) -> Result<(u64, u64), MigrationError> {
        let pieces = self.target.settled_pieces(range)?;
        let within = pieces.iter().map(|piece| {
            let end = piece.offset.saturating_add(piece.len).min(range.end);
            end.saturating_sub(piece.offset.max(range.start))
        });
        Ok((fragments(&pieces), within.sum()))
    }
}

/// Defragments ranges of a file, which are ascending and disjoint.
pub fn defragment_file(
    target: &Target,
    ranges: impl IntoIterator<Item = Range<u64>>,
    limits: Limits,
) -> Report {
    let mut defrag = FileDefrag::new(target, ranges, limits);
    while defrag.step() {}
    defrag.into_report()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_summed_up_by_reason() {
        let mut report = Report::default();
        report.skip(MigrationError::Shared, 4096);
        report.skip(MigrationError::Changed, 1);
        report.skip(MigrationError::Shared, 8192);
        let sums = report.skipped.iter();
        let sums: Vec<_> = sums.map(|s| (s.why.name(), s.ranges, s.bytes)).collect();
        assert_eq!(sums, [("shared", 2, 12288), ("changed", 1, 1)]);
    }
}
