//! Holes of a volume as lseek(2) sees them.

use crate::errno::errno;
use crate::file_system::SeekTarget;
use rustix::io::Errno;
use std::ops::ControlFlow;
use volume::{RequestContext, Volume};

/// Where data or a hole begins, at `offset` or after it. The end of the volume is a hole; past it,
/// and where no data follows, `NXIO`.
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
