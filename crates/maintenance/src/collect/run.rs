//! State of a garbage collection run in progress, for displays and deadlines. The server and the
//! command `gc` keep it beside the [`super::Collector`].
//!
//! Invariant: numbers only.

use super::{GcCounts, GcStage};
use crate::report::{TaskBytes, TaskReport, TaskTotals, WorkLeft};
use crate::schedule::{CollectMemory, CollectNote, Urgency};
use format::phase::TaskPhase;
use qos::Flow;
use store::Pool;
use units::UnixNanos;

/// Until a run has chosen its containers, one in this many bytes of the pool counts as left to
/// copy.
const UNKNOWN_PART: u64 = 10;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct GcRun {
    /// Cause of the run, its begin, and the size of the pool then.
    pub begun: CollectNote,
    /// Stage of the run.
    pub stage: GcStage,
    /// Its totals.
    pub counts: GcCounts,
    /// Plain bytes left to copy, as far as known.
    pub to_copy_bytes: u64,
}

impl GcRun {
    /// A run begins now.
    pub fn new(pool: &Pool, urgency: Urgency, by_command: bool) -> Self {
        Self {
            begun: CollectMemory::note(pool, urgency, by_command),
            stage: GcStage::Purging,
            counts: GcCounts::default(),
            to_copy_bytes: 0,
        }
    }

    /// Returns the note of the run if it ends now.
    pub fn ended(&self, pool: &Pool, is_complete: bool) -> CollectNote {
        CollectNote {
            is_complete,
            deleted_bytes: self.counts.deleted_bytes,
            discarded_bytes: self.counts.discarded_bytes,
            ahead_by: self.counts.ahead_by,
            ..CollectMemory::note(pool, self.begun.urgency, self.begun.by_command)
        }
    }
}

impl TaskReport for GcRun {
    const NAME: &'static str = "collect";
    const DOING: &'static str = "collecting";
    const FLOW: Flow = Flow::Collect;

    fn phase(&self) -> TaskPhase {
        TaskPhase::UnderWay
    }

    fn began(&self) -> UnixNanos {
        self.begun.at
    }

    fn totals(&self) -> TaskTotals {
        TaskTotals {
            bytes: TaskBytes::of(self.counts.copied_bytes, self.counts.cached_bytes),
            damaged: self.counts.kept_back_containers,
        }
    }

    /// Each byte is read and written.
    fn left_bytes(&self) -> u64 {
        let to_copy = match self.stage {
            GcStage::Ordering | GcStage::Copying | GcStage::Done => self.to_copy_bytes,
            _ => self.begun.stored_bytes / UNKNOWN_PART,
        };
        to_copy.saturating_mul(2)
    }

    /// An urgent run needs no deadline: it asks for the largest share anyway.
    fn left(&self) -> Option<WorkLeft> {
        let is_urgent = !self.begun.by_command && self.begun.urgency > Urgency::WhenIdle;
        (!is_urgent).then(|| WorkLeft {
            began: self.begun.at,
            bytes: self.left_bytes(),
        })
    }
}
