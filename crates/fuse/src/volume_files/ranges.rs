//! Applies ranges of files to volumes: reads that end at the volume's end, and lseek(2). Volume
//! files and the program call this.
//!
//! Invariant: no request past the volume's end reaches the volume.

use crate::errno::errno;
use crate::file_system::SeekTarget;
use rustix::io::Errno;
use std::ops::ControlFlow;
use volume::{RequestContext, Volume, VolumeError};

/// Returns how many of `len` bytes at `offset` lie within a volume of `size_bytes`.
pub(super) fn within(offset: u64, len: usize, size_bytes: u64) -> usize {
    let left = size_bytes.saturating_sub(offset);
    usize::try_from(left).map_or(len, |left| len.min(left))
}

/// Fills `into` from `offset` up to the volume's end, and returns the number of bytes.
pub fn read_within(
    volume: &dyn Volume,
    context: RequestContext,
    offset: u64,
    into: &mut [u8],
) -> Result<usize, VolumeError> {
    let len = within(offset, into.len(), volume.size_bytes());
    match into.get_mut(..len) {
        Some(into) if len > 0 => volume.read(context, offset, into)?,
        _ => {}
    }
    Ok(len)
}

/// Returns the start of data or of a hole, at `offset` or after it. The end of the volume is a
/// hole. Past it, and where no data follows: `NXIO`.
pub fn seek_extent(
    volume: &dyn Volume,
    context: RequestContext,
    offset: u64,
    target: SeekTarget,
) -> Result<u64, Errno> {
    let size_bytes = volume.size_bytes();
    let Some(left) = size_bytes.checked_sub(offset).filter(|left| *left > 0) else {
        return Err(Errno::NXIO);
    };
    let wants_hole = target == SeekTarget::Hole;
    let mut found = None;
    volume
        .extents(context, offset, left, &mut |extent| {
            if extent.hole != wants_hole {
                return ControlFlow::Continue(());
            }
            found = Some(extent.offset_bytes);
            ControlFlow::Break(())
        })
        .map_err(|e| errno(&e))?;
    match found {
        Some(at) => Ok(at),
        None if wants_hole => Ok(size_bytes),
        None => Err(Errno::NXIO),
    }
}
