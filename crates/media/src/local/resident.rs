//! Counts the pages of a range that the system's page cache holds (`cachestat`, Linux 6.5).
//! [`super::told`] calls this.
//!
//! Invariant: the query starts no I/O. `RWF_NOWAIT` alone does not promise that: it begins to read
//! missing pages, and on a fast disk they are there before it looks again.

#![allow(unsafe_code, reason = "neither std nor rustix has this system call")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// System call number, the same on every architecture.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns the number of cached pages, in the system's page size; `None` where the system does not
/// report it.
pub(super) fn pages(file: &File, offset: u64, len: u64) -> Option<u64> {
    let range = Range { offset, len };
    let mut counts = Counts::default();
    // SAFETY: the system reads one `Range` and fills one `Counts`. Both have its layout and outlive
    // the call, and the descriptor is open as long as `file` is.
    let done = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0,
        )
    };
    (done == 0).then_some(counts.cached)
}
