//! System calls that read where a file's bytes lie and that give them another place. `extents` and
//! `migrate` call this.
//!
//! Invariant: as in [`super`]: each call passes memory that outlives it and has the layout that the
//! system expects.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// An extent as FIEMAP reports it: `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawExtent {
    pub logical: u64,
    pub physical: u64,
    pub bytes: u64,
    reserved: [u64; 2],
    pub flags: u32,
    reserved_end: [u32; 3],
}

/// Extents that one call reports at most.
pub(crate) const EXTENTS_A_CALL: usize = 256;

/// `struct fiemap`.
#[repr(C)]
struct ExtentRequest {
    start: u64,
    bytes: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_A_CALL],
}

/// Returns the first extents of a range, at most [`EXTENTS_A_CALL`]. Writes nothing: data without a
/// place yet is reported as such.
pub(crate) fn fiemap(file: &File, range: &Range<u64>) -> io::Result<Vec<RawExtent>> {
    const FIEMAP: libc::c_ulong = 0xC020_660B;
    let mut request = ExtentRequest {
        start: range.start,
        bytes: range.end.saturating_sub(range.start),
        flags: 0,
        mapped: 0,
        count: EXTENTS_A_CALL as u32,
        reserved: 0,
        extents: [RawExtent::default(); EXTENTS_A_CALL],
    };
    // SAFETY: the system reads the head and fills at most `count` extents, for which there is room.
    match unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut request) } {
        0 => {
            let found = request.extents.iter().take(request.mapped as usize);
            Ok(found.copied().collect())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct move_extent` of ext4, in blocks of the file system.
#[repr(C)]
struct MoveRequest {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    blocks: u64,
    moved: u64,
}

/// Exchanges blocks of a file with blocks of a donor on ext4; the file's bytes stay. Returns the
/// blocks that were exchanged, also with an error, and the error.
pub(crate) fn move_extents(
    file: &File,
    donor: &File,
    start: u64,
    donor_start: u64,
    blocks: u64,
) -> (u64, io::Result<()>) {
    const MOVE_EXT: libc::c_ulong = 0xC028_660F;
    let mut request = MoveRequest {
        reserved: 0,
        donor: donor.as_raw_fd().cast_unsigned(),
        start,
        donor_start,
        blocks,
        moved: 0,
    };
    // SAFETY: the system reads and writes one request, which outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), MOVE_EXT, &raw mut request) };
    let outcome = match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    (request.moved.min(blocks), outcome)
}

/// `struct file_dedupe_range` with one destination.
#[repr(C)]
struct DedupeRequest {
    source_offset: u64,
    bytes: u64,
    count: u16,
    reserved: u16,
    reserved_end: u32,
    file: i64,
    offset: u64,
    deduped: u64,
    status: i32,
    reserved_status: u32,
}

/// Answer of the kernel to a request to share extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareResult {
    /// So many bytes are the same, and are shared now.
    Bytes(u64),
    /// The bytes differ; nothing changed.
    Differ,
}

/// Makes a range of `file` share the extents of `source`, if the bytes are the same. The kernel
/// compares and exchanges under one lock.
pub(crate) fn share_if_same(
    source: &File,
    source_offset: u64,
    file: &File,
    offset: u64,
    bytes: u64,
) -> io::Result<ShareResult> {
    const DEDUPE: libc::c_ulong = 0xC018_9436;
    const DIFFER: i32 = 1;
    let mut request = DedupeRequest {
        source_offset,
        bytes,
        count: 1,
        reserved: 0,
        reserved_end: 0,
        file: file.as_raw_fd().into(),
        offset,
        deduped: 0,
        status: 0,
        reserved_status: 0,
    };
    // SAFETY: the system reads and writes one request with one destination, which outlives the
    // call.
    if unsafe { libc::ioctl(source.as_raw_fd(), DEDUPE, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    match request.status {
        0 => Ok(ShareResult::Bytes(request.deduped.min(bytes))),
        DIFFER => Ok(ShareResult::Differ),
        negative => Err(io::Error::from_raw_os_error(negative.saturating_neg())),
    }
}

/// Writes the dirty pages of a range and waits for it. Metadata is not written.
pub(crate) fn write_back(file: &File, range: &Range<u64>) -> io::Result<()> {
    const BEFORE_WRITE_AFTER: libc::c_uint = 7;
    let bytes = range.end.saturating_sub(range.start);
    // SAFETY: the call takes no memory.
    let done = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            range.start.cast_signed(),
            bytes.cast_signed(),
            BEFORE_WRITE_AFTER,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const _: () = assert!(size_of::<RawExtent>() == 56);
const _: () = assert!(size_of::<ExtentRequest>() == 32 + 56 * EXTENTS_A_CALL);
const _: () = assert!(size_of::<MoveRequest>() == 40);
const _: () = assert!(size_of::<DedupeRequest>() == 24 + 32);
