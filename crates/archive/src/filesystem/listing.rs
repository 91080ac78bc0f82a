//! Lists the names in an open directory. Backup and restore call this.
//!
//! Invariant: the directory is reached by its handle only, so moving directories does not change
//! which one is listed.

use rustix::fs::{RawDir, SeekFrom};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

/// Bytes of names fetched by one call; large directories take a few calls.
const LISTING_BUFFER_BYTES: usize = 32 << 10;

/// All names except `.` and `..`, sorted by bytes.
pub(super) fn names_in(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    // Start from the beginning, also on a second call.
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); LISTING_BUFFER_BYTES];
    let mut listing = RawDir::new(directory, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
