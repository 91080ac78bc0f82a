//! Finds what changed in a writable volume since a state.
//!
//! Handles call this.
//! Invariant: ranges in the overlays count as changed, to the byte. The recipes of one moment are
//! compared for the rest.

use super::engine::Engine;
use super::live::LiveVolume;
use format::recipe::ObjectRoot;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use store::{changed_ranges, tell_changes};
use volume::{Change, Changes, RequestContext, VolumeError};

/// Changes since one state. See the module's head.
pub(super) struct VolumeChanges {
    pub engine: Arc<Engine>,
    pub volume: Arc<LiveVolume>,
    pub before: ObjectRoot,
}

impl VolumeChanges {
    /// Returns changed ranges, ordered by their first byte; they may overlap.
    fn ranges(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let (pieces, root) = {
            let state = self.volume.state();
            (state.pieces(within.start, within.end), state.root)
        };
        let mut ranges = changed_ranges(
            self.engine.backing.pool.reader(),
            &self.before,
            &root,
            within,
        );
        ranges.extend(pieces.iter().map(|piece| piece.offset..piece.end()));
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

impl Changes for VolumeChanges {
    fn pieces(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        tell_changes((offset_bytes, len_bytes), visit, |within| {
            self.ranges(within)
        });
        Ok(())
    }
}
