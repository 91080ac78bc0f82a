//! Moves ranges of files into one contiguous piece each, on ext4, xfs and btrfs, while the files
//! are in use. `defragment` calls this.
//!
//! Invariant: at no time, after a crash too, does the file hold other bytes than its writers gave
//! it. Its times stay as they are. Only data that is written is moved: holes stay holes,
//! preallocated ranges stay preallocated.
//!
//! A move allocates a donor (an unlinked file) of the range's length in one piece, and exchanges
//! extents with it: [`ext4`] by EXT4_IOC_MOVE_EXT, [`dedupe`] (xfs and btrfs) by a copy that the
//! kernel compares. The donor is freed with what it got.

mod checks;
mod claim;
mod dedupe;
mod donor;
mod error;
mod ext4;
mod method;
mod pace;

pub use error::MigrationError;
pub use method::Migrated;
pub use pace::{PIECE_BYTES, Pacer};

use crate::extents::{extents, pieces};
use crate::sys::extents::write_back;
use checks::{Kind, check};
use claim::Claim;
use donor::Donor;
use fragpicker::Piece;
use machine::{PAGE_BYTES, cached};
use method::{Job, Method};
use pace::Pace;
use rustix::fs::{Advice, CWD, IFlags, Mode, OFlags, fadvise, fstatvfs, ioctl_getflags, openat};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A file whose ranges may be moved. Others cannot have it for that until it is dropped.
pub struct Target {
    file: File,
    directory: OwnedFd,
    method: &'static dyn Method,
    /// btrfs: donors need the same attribute.
    is_nocow: Option<bool>,
    unit: u64,
    block: u64,
    pace: Pace,
    _claim: Claim,
}

impl Target {
    /// Opens a file, unless something forbids to move its extents. Links are not followed.
    pub fn open(path: &Path) -> Result<Self, MigrationError> {
        let failed = |e: rustix::io::Errno| MigrationError::of("open the file", e);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(MigrationError::NotRegular);
        };
        let parent = match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        };
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, parent, directory, Mode::empty()).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOCTTY;
        // Reading leaves no trace, where that is permitted.
        let file = openat(&directory, name, flags | OFlags::NOATIME, Mode::empty())
            .or_else(|_| openat(&directory, name, flags, Mode::empty()))
            .map_err(failed)?;
        let mut file = File::from(file);
        let kind = check(&file)?;
        let claim = Claim::take(&file)?;
        let method: &'static dyn Method = match kind {
            Kind::Ext4 => &ext4::Ext4,
            Kind::Xfs | Kind::Btrfs => &dedupe::Dedupe,
        };
        if method.needs_writing() {
            let again = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            file = openat(CWD, &again, flags | OFlags::NOATIME, Mode::empty())
                .or_else(|_| openat(CWD, &again, flags, Mode::empty()))
                .map_err(failed)?
                .into();
        }
        let is_nocow = match kind {
            Kind::Btrfs => Some(
                ioctl_getflags(&file)
                    .map_err(failed)?
                    .contains(IFlags::NOCOW),
            ),
            Kind::Ext4 | Kind::Xfs => None,
        };
        let block = fstatvfs(&file).map_err(failed)?.f_bsize;
        let block = NonZeroU64::new(block).map_or(PAGE_BYTES, NonZeroU64::get);
        Ok(Self {
            file,
            directory,
            method,
            is_nocow,
            unit: block.max(PAGE_BYTES),
            block,
            pace: Pace::default(),
            _claim: claim,
        })
    }

    /// Lets moves leave the device to others: it is read in pieces of [`PIECE_BYTES`] and written
    /// in parts of 1 MiB, each when `pacer` says so. The kernel does not read the file ahead.
    pub fn paced(mut self, pacer: Option<Arc<dyn Pacer>>) -> Self {
        if pacer.is_some() {
            // It is only advice: no error matters.
            let _ = fadvise(&self.file, 0, None, Advice::Random);
        }
        self.pace = Pace::new(pacer);
        self
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the pieces of a range, after writing what is dirty in it.
    pub(crate) fn settled_pieces(&self, range: &Range<u64>) -> Result<Vec<Piece>, MigrationError> {
        write_back(&self.file, range)
            .map_err(|e| MigrationError::of("write dirty pages of the file", e))?;
        pieces(&self.file, range.clone())
            .map_err(|e| MigrationError::of("ask for the file's extents", e))
    }

    /// Moves the written bytes of ranges into one piece together, even if they are in one already.
    /// The ranges are ascending and disjoint. They are in memory twice meanwhile, and in space.
    ///
    /// `moved` is added to, also by what was moved before an error.
    pub fn relocate(
        &self,
        ranges: &[Range<u64>],
        moves_shared: bool,
        moved: &mut Migrated,
    ) -> Result<(), MigrationError> {
        let failed = |e: io::Error| MigrationError::of("ask for the file's size", e);
        let size = self.file.metadata().map_err(failed)?.len();
        let mut all: Vec<Range<u64>> = Vec::new();
        let mut was_cached = Vec::new();
        for range in ranges {
            let start = range.start / self.unit * self.unit;
            // Two ranges may meet in a unit.
            let start = start.max(all.last().map_or(0, |run| run.end));
            let end = range.end.min(size).next_multiple_of(self.unit);
            if start >= end {
                continue;
            }
            let range = start..end;
            let pieces = self.settled_pieces(&range)?;
            self.refuse(&range, moves_shared)?;
            all.extend(runs(&pieces, &range, self.unit));
            let pages = cached(&self.file, start, end - start).map_or(0, |pages| pages.cached);
            moved.cached_bytes += (pages * PAGE_BYTES).min(end - start);
            was_cached.push((range, pages));
        }
        let bytes = all.iter().map(|run| run.end - run.start).sum();
        if bytes == 0 {
            return Err(MigrationError::NothingToGain);
        }
        let donor = Donor::allocate(&self.directory, bytes, self.is_nocow)?;
        let job = Job {
            file: &self.file,
            size,
            donor: &donor,
            runs: &all,
            unit: self.unit,
            block: self.block,
            pace: &self.pace,
        };
        let outcome = self.method.exchange(&job, moved);
        for (range, pages) in &was_cached {
            self.keep_cached(range, *pages);
        }
        outcome
    }

    /// Refuses what only the extents tell.
    fn refuse(&self, range: &Range<u64>, moves_shared: bool) -> Result<(), MigrationError> {
        let mut refused = None;
        extents(&self.file, range.clone(), &mut |extent| {
            let why = match () {
                () if extent.is_encrypted() => MigrationError::Encrypted,
                () if extent.is_encoded() => MigrationError::Compressed,
                () if extent.is_shared() && !moves_shared => MigrationError::Shared,
                () => return,
            };
            refused.get_or_insert(why);
        })
        .map_err(|e| MigrationError::of("ask for the file's extents", e))?;
        refused.map_or(Ok(()), Err)
    }

    /// Leaves about as much of the range in memory as there was. It is only advice: no error
    /// matters.
    fn keep_cached(&self, range: &Range<u64>, was_cached: u64) {
        let bytes = range.end - range.start;
        let advice = match was_cached {
            0 => Advice::DontNeed,
            // xfs and btrfs drop the pages of what they exchange.
            pages if pages * PAGE_BYTES * 2 >= bytes => Advice::WillNeed,
            _ => return,
        };
        let _ = fadvise(&self.file, range.start, NonZeroU64::new(bytes), advice);
    }
}

/// Returns the whole units of a range whose bytes are all written, as runs.
fn runs(pieces: &[Piece], range: &Range<u64>, unit: u64) -> Vec<Range<u64>> {
    let mut written: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        let start = piece.offset.max(range.start);
        let end = piece.offset.saturating_add(piece.len).min(range.end);
        match written.last_mut() {
            _ if start >= end => {}
            Some(last) if last.end == start => last.end = end,
            _ => written.push(start..end),
        }
    }
    let whole = written
        .into_iter()
        .map(|run| run.start.next_multiple_of(unit)..run.end / unit * unit);
    whole.filter(|run| run.start < run.end).collect()
}

#[cfg(test)]
mod tests;
