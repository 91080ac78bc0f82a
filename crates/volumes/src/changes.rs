//! What changed in a writable volume since a state.
//!
//! Invariant: what the overlays hold counts as changed, to the byte; the rest is compared by recipes, of
//! one moment. Called by handles.

use super::engine::Engine;
use super::live::LiveVolume;
use format::recipe::ObjectRoot;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use store::{changed_ranges, tell_changes};
use volume::{Change, Changes, RequestContext, VolumeError};

/// See the module's head.
pub(super) struct VolumeChanges {
    pub engine: Arc<Engine>,
    pub volume: Arc<LiveVolume>,
    pub before: ObjectRoot,
}

impl VolumeChanges {
    /// Ascending by their first bytes; they may overlap.
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
