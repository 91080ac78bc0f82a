//! Records which volumes have records in one use of a slot, and in which ranges.
//!
//! `slot_use` adds records; [`super::reach`] stores the result.
//! Invariant: ranges only grow. If a volume does not fit, `more` is set.

use format::journal::{RecordHeader, RecordKind};
use format::reach::{REACH_VOLUMES_MAX, ReachRange};

/// Volumes with records in one use of a slot.
#[derive(Default)]
pub(super) struct Touched {
    ranges: Vec<ReachRange>,
    more: bool,
}

impl Touched {
    pub(super) fn note(&mut self, header: &RecordHeader) {
        let is_chunks = header.kind == RecordKind::Chunks;
        let end = header.start.saturating_add(header.len);
        let same = |r: &&mut ReachRange| r.volume == header.volume && r.is_chunks == is_chunks;
        if let Some(range) = self.ranges.iter_mut().find(same) {
            let end = range.start.saturating_add(range.len).max(end);
            range.start = range.start.min(header.start);
            range.len = end - range.start;
        } else if self.ranges.len() < REACH_VOLUMES_MAX {
            self.ranges.push(ReachRange {
                volume: header.volume,
                start: header.start,
                len: header.len,
                is_chunks,
            });
        } else {
            self.more = true;
        }
    }

    pub(super) fn get(&self) -> (Vec<ReachRange>, bool) {
        (self.ranges.clone(), self.more)
    }
}
