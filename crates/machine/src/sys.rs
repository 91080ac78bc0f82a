//! System calls that neither std nor rustix has: `cachestat` and I/O priorities. `pages` and `idle`
//! call this. [`snapshots`] has those of btrfs.
//!
//! Invariant: the crate's only unsafe code. Each call passes memory that outlives it and has the
//! layout that the system expects.

#![allow(unsafe_code, reason = "system calls without a safe binding")]

pub(crate) mod snapshots;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// Pages of a range, as `cachestat` counts them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PageCounts {
    pub cached: u64,
    pub dirty: u64,
    pub written_back: u64,
    pub evicted: u64,
    pub recently_evicted: u64,
}

/// Counts pages of a file in the page cache. Users who neither own the file nor
/// may write it get `EPERM`.
pub(crate) fn cachestat(file: &File, offset: u64, bytes: u64) -> io::Result<PageCounts> {
    const CACHESTAT: libc::c_long = 451;
    let range = Range { offset, bytes };
    let mut counts = PageCounts::default();
    // SAFETY: the system reads one range and fills one set of counts, which outlive the call.
    let done = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0,
        )
    };
    match done {
        0 => Ok(counts),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The call concerns one thread; the number of this one is 0.
const THREAD: libc::c_int = 1;

/// Returns the I/O priority of this thread, as the kernel encodes it.
pub(crate) fn io_priority() -> io::Result<i32> {
    // SAFETY: the call takes no memory.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, 0) };
    match i32::try_from(priority) {
        Ok(priority) if priority >= 0 => Ok(priority),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the I/O priority of this thread. Threads that it starts inherit it.
pub(crate) fn set_io_priority(priority: i32) -> io::Result<()> {
    // SAFETY: the call takes no memory.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
