//! Reads a file without changing what the machine has in memory: of each range first the pages that
//! are there, then the others, which are dropped again. Backups read with it.
//!
//! Invariant: it returns the bytes that [`OpenFile::read_at`] returns. It drops only pages that
//! were not in memory when it looked, which is before it or the kernel's read-ahead reads them, and
//! no dirty page. Its memory does not depend on the length of the file.

use super::PathError;
use super::in_memory::SourceMemory;
use super::open_file::OpenFile;
use super::paced::Pace;
use machine::{PAGE_BYTES, PageRun};
use std::collections::VecDeque;
use units::Part;

/// The file is looked at in stretches of so many bytes. A multiple of the largest folio, so that
/// none of the pages that a stretch brings in belongs to two.
const STRETCH_BYTES: u64 = 4 << 20;
/// Bytes that are looked at ahead of a read. Read-ahead of the kernel does not reach so far unless
/// it is configured to; pages that it brings in behind this stay in memory.
const AHEAD_BYTES: u64 = 16 << 20;

/// See the module's head.
pub struct CachedFirst<'f> {
    file: &'f OpenFile,
    /// For what is not in memory.
    pace: Pace<'f>,
    memory: &'f SourceMemory,
    /// Runs that were looked at and are not behind the last read, in order.
    runs: VecDeque<PageRun>,
    looked_to: u64,
    /// False after the system refused to answer.
    looks: bool,
    drops: bool,
}

impl<'f> CachedFirst<'f> {
    /// Reads `file`. `drops`: pages that it brings in leave memory again.
    pub fn new(file: &'f OpenFile, pace: Pace<'f>, memory: &'f SourceMemory, drops: bool) -> Self {
        Self {
            file,
            pace,
            memory,
            runs: VecDeque::new(),
            looked_to: 0,
            looks: true,
            drops,
        }
    }

    /// Takes over what another look at the whole file has found.
    pub fn knowing(mut self, runs: Vec<PageRun>) -> Self {
        self.looked_to = self.file.len().next_multiple_of(PAGE_BYTES);
        self.add(runs);
        self
    }

    fn add(&mut self, runs: Vec<PageRun>) {
        let cached = runs.iter().filter(|run| run.cached);
        let found = cached.map(|run| run.end.min(self.file.len()) - run.start);
        self.memory.add_found(found.sum());
        self.runs.extend(runs);
    }

    /// Fills `into` from `offset`, which never goes back. Returns fewer bytes only at the end of
    /// the file.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        self.look(offset, offset + into.len() as u64);
        let count = self.fill(offset, into)?;
        // The last page may be only partly read.
        let done = (offset + count as u64) / PAGE_BYTES * PAGE_BYTES;
        self.pass(done);
        Ok(count)
    }

    /// Drops the rest of what was brought in, after the last read.
    pub fn finish(mut self) {
        self.pass(u64::MAX);
    }

    /// Looks at the pages of a range and of what follows it.
    fn look(&mut self, offset: u64, end: u64) {
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        if self.looked_to < first {
            // A hole, which is not read.
            self.pass(first);
            self.looked_to = first;
        }
        let len = self.file.len().next_multiple_of(PAGE_BYTES);
        let until = end.saturating_add(AHEAD_BYTES).min(len);
        while self.looks && self.looked_to < until {
            let from = self.looked_to;
            let to = (from + 1).next_multiple_of(STRETCH_BYTES).min(len);
            match machine::runs(self.file.file(), &(from..to)) {
                Ok(runs) => self.add(runs),
                Err(_) => self.looks = false,
            }
            self.looked_to = to;
        }
    }

    fn fill(&self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let end = offset + into.len() as u64;
        let overlapping = self.runs.iter().filter_map(|run| {
            let (start, end) = (run.start.max(offset), run.end.min(end));
            (start < end).then_some((start, end, run.cached))
        });
        let mut parts: Vec<_> = overlapping.collect();
        let known_to = parts.last().map_or(offset, |(_, end, _)| *end);
        if known_to < end {
            // Behind the end that the file had when it was opened.
            parts.push((known_to, end, false));
        }
        let is_mixed = parts.windows(2).any(|pair| match pair {
            [(_, _, one), (_, _, other)] => one != other,
            _ => false,
        });
        if !is_mixed {
            return match parts.first() {
                Some((_, _, true)) => self.file.read_at(offset, into),
                _ => self.pace.read(self.file, offset, into),
            };
        }
        let mut counts = vec![0; parts.len()];
        for first in [true, false] {
            for (&(start, end, cached), count) in parts.iter().zip(&mut counts) {
                if cached == first {
                    let part = (start - offset) as usize..(end - offset) as usize;
                    let part = into
                        .part_mut(part)
                        .map_err(|e| self.file.failed("read", e))?;
                    *count = match cached {
                        true => self.file.read_at(start, part)?,
                        false => self.pace.read(self.file, start, part)?,
                    };
                }
            }
        }
        let mut filled = 0;
        for (at, (&(start, end, _), count)) in parts.iter().zip(&counts).enumerate() {
            filled += count;
            if (*count as u64) < end - start {
                // The end of the file. If it has moved meanwhile, later parts have bytes.
                if counts.iter().skip(at + 1).all(|count| *count == 0) {
                    break;
                }
                return self.pace.read(self.file, offset, into);
            }
        }
        Ok(filled)
    }

    /// Forgets the runs before `done`, and drops those that were not in memory.
    fn pass(&mut self, done: u64) {
        while let Some(run) = self.runs.pop_front_if(|run| run.end <= done) {
            if run.cached || !self.drops {
                continue;
            }
            // The last page is dropped whole only if the range has no end.
            let end = (run.end < self.file.len()).then_some(run.end);
            // Pages that stay in memory are no failure of the backup.
            let dropped = machine::release(self.file.file(), run.start, end).unwrap_or(0);
            self.memory.add_dropped(dropped * PAGE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests;
