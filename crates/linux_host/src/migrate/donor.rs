//! A donor: the unlinked file whose blocks a range gets. The methods of `migrate` fill and empty
//! it.
//!
//! Invariant: it has no name at any time, so that the file system frees it when its process ends,
//! or at the next mount. Only its owner can read it.

use super::error::MigrationError;
use super::pace::Pace;
use crate::extents::extents;
use rustix::fs::{FallocateFlags, IFlags, Mode, OFlags, fallocate, fstatvfs, openat};
use rustix::fs::{ioctl_getflags, ioctl_setflags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at once.
pub(super) const COPY_BYTES: usize = 1 << 20;

/// See the module's head.
pub(super) struct Donor {
    pub file: File,
}

impl Donor {
    /// Makes a donor in a directory, with so many bytes in one piece. `is_nocow`: as the file,
    /// whose extents btrfs then exchanges with it only.
    pub fn allocate(
        directory: &OwnedFd,
        bytes: u64,
        is_nocow: Option<bool>,
    ) -> Result<Self, MigrationError> {
        let failed = |e: rustix::io::Errno| MigrationError::of("make a donor file", e);
        let space = fstatvfs(directory).map_err(failed)?;
        // The last free space is for others.
        if space.f_bavail.saturating_mul(space.f_frsize) < bytes.saturating_mul(2) {
            return Err(MigrationError::NoSpace);
        }
        // EXCL: it can never get a name.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(directory, ".", flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        if let Some(is_nocow) = is_nocow {
            let mut attributes = ioctl_getflags(&file).map_err(failed)?;
            if attributes.contains(IFlags::NOCOW) != is_nocow {
                attributes.set(IFlags::NOCOW, is_nocow);
                ioctl_setflags(&file, attributes).map_err(failed)?;
            }
        }
        fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(failed)?;
        let donor = Self { file: file.into() };
        match donor.pieces(bytes)? {
            1 => Ok(donor),
            _ => Err(MigrationError::FreeSpaceFragmented),
        }
    }

    /// Counts separate places, preallocated ones too. A range without a place counts as one.
    fn pieces(&self, bytes: u64) -> Result<u64, MigrationError> {
        let (mut pieces, mut end, mut covered) = (0, None, 0);
        extents(&self.file, 0..bytes, &mut |extent| {
            if !extent.has_place() || end != Some(extent.place) {
                pieces += 1;
            }
            end = Some(extent.place.saturating_add(extent.len));
            covered = extent.offset.saturating_add(extent.len);
        })
        .map_err(|e| MigrationError::of("ask for the donor's extents", e))?;
        Ok(pieces + u64::from(covered < bytes))
    }

    /// Copies bytes of a file to a place in the donor.
    pub fn copy(
        &self,
        file: &File,
        range: &Range<u64>,
        to: u64,
        buffer: &mut [u8],
        pace: &Pace,
    ) -> Result<(), MigrationError> {
        let (mut from, mut to) = (range.start, to);
        while from < range.end {
            let bytes = pace.read_bytes(&(from..range.end), buffer.len() as u64);
            let Some(part) = buffer.get_mut(..bytes as usize) else {
                break;
            };
            let piece = from..from + bytes;
            match pace.read(file, &piece, || file.read_exact_at(part, from)) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(MigrationError::Changed);
                }
                read => read.map_err(|e| MigrationError::of("read the file", e))?,
            }
            let written = self.file.write_all_at(part, to);
            written.map_err(|e| MigrationError::of("write the donor", e))?;
            from += bytes;
            to += bytes;
        }
        Ok(())
    }
}
