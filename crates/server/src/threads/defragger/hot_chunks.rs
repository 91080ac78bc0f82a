//! Copies hot chunks into small regions without a user's command (decision 47). The thread of
//! defragmentation calls this while it has no run, and between the steps of one.
//!
//! Invariant: a run begins only while the device is idle, and `maintenance::HotState` allows it. It
//! ends when the setting is switched off or little space is free; what it has copied stays.

use crate::program::Program;
use crate::state::{HotChunksStatus, Tasks};
use format::phase::TaskPhase;
use maintenance::{
    DefragReport, DefragSource, DefragStage, FetchCost, Heat, HotChunks, HotDecision, HotWait,
    RecordedDefrag,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{LaneOptions, StoreError};
use terminal::error::with_causes;
use terminal::sizes;

/// Time between two looks at what is hot.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Time between two looks while clients use the device.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait otherwise. A start of a run, or a changed setting, ends it.
const AT_REST: Duration = Duration::from_secs(60);

/// See the module's head.
pub struct HotChunksThread {
    tasks: Arc<Tasks>,
    program: Arc<dyn Program>,
    lane: LaneOptions,
    looked: Option<Instant>,
    /// Number and weight of the hot requests that were seen last.
    seen: (usize, u64),
    /// The setting that was seen last.
    percent: u8,
    /// Bytes of the run in progress that were counted.
    counted_bytes: u64,
}

impl HotChunksThread {
    pub fn new(tasks: &Arc<Tasks>, program: &Arc<dyn Program>, lane: LaneOptions) -> Self {
        Self {
            tasks: Arc::clone(tasks),
            program: Arc::clone(program),
            lane,
            looked: None,
            seen: (0, 0),
            percent: 0,
            counted_bytes: 0,
        }
    }

    /// No run is in progress: begins one, if it is worth it. Returns when to look again.
    pub fn rest(&mut self) -> Duration {
        match self.look() {
            Ok(Some(wait)) => self.tasks.hot_chunks.update(|status| status.wait = wait),
            Ok(None) => {}
            Err(e) => self.program.warn(format_args!(
                "defrag: cannot look for hot chunks: {}",
                with_causes(&e)
            )),
        }
        match self.tasks.hot_chunks.status().wait {
            HotWait::Busy => BUSY_PAUSE,
            _ => AT_REST,
        }
    }

    /// Returns why no run begins now; `None` if one does, or nothing has changed.
    fn look(&mut self) -> Result<Option<HotWait>, StoreError> {
        let tasks = Arc::clone(&self.tasks);
        let last = tasks.defrag.status().map(|status| status.run.report);
        let state = tasks.hot_state(last.as_ref());
        let is_changed = std::mem::replace(&mut self.percent, state.weekly_percent) != self.percent;
        if let Some(wait) = state.wait() {
            return Ok(Some(wait));
        }
        let is_recent = self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if is_recent && !is_changed {
            return Ok(None);
        }
        if !tasks.device.is_idle() {
            // The next look is soon.
            self.percent = 0;
            return Ok(Some(HotWait::Busy));
        }
        self.looked = Some(Instant::now());
        let source = DefragSource::Volumes(Arc::clone(&tasks.volumes));
        let amplified = source.amplified();
        let seen = weight(&amplified);
        let is_old = std::mem::replace(&mut self.seen, seen) == seen && !is_changed;
        if seen.0 == 0 || is_old {
            return Ok(Some(HotWait::NothingNew));
        }
        let known = RecordedDefrag::read(&tasks.pool);
        let known = known.map_or_else(Default::default, |last| last.small_ranges());
        let percent = state.weekly_percent;
        let hot = HotChunks::find(source, &amplified, &known, percent, self.lane)?;
        match state.decide(&hot) {
            HotDecision::Wait(HotWait::NothingNew) => Ok(Some(HotWait::NothingNew)),
            HotDecision::Wait(wait) => {
                // It waits for something else than reads: the next look is a full one.
                self.seen = (0, 0);
                Ok(Some(wait))
            }
            HotDecision::Begin => {
                self.seen = (0, 0);
                self.begin(hot);
                Ok(None)
            }
        }
    }

    fn begin(&mut self, hot: HotChunks) {
        let (new, all) = (hot.new_bytes, hot.all_bytes);
        match self.tasks.defrag.begin(hot.run) {
            Ok(_) => {
                self.begun(0);
                self.program.note(format_args!(
                    "defrag: begins by itself: random reads of {} of hot chunks, {} of them new, fetch much more than they need",
                    sizes::display(all),
                    sizes::display(new)
                ));
            }
            // A command was faster, or the server is ending.
            Err(e) => self.program.warn(format_args!("defrag: {e}")),
        }
    }

    /// A run of the server has begun, or was resumed with these bytes.
    pub fn begun(&mut self, copied_bytes: u64) {
        self.counted_bytes = copied_bytes;
        self.tasks.hot_chunks.update(|status| status.runs += 1);
    }

    /// A run of the server is in progress: counts its copies, and ends it if it must end.
    pub fn worked(&mut self) {
        let Some(report) = self.tasks.own_defrag() else {
            return;
        };
        self.count(&report);
        let state = self.tasks.hot_state(None);
        let why = if state.weekly_percent == 0 {
            "it was switched off"
        } else if state.is_low(0) {
            "little space is free"
        } else {
            return;
        };
        match self.tasks.end_own_defrag() {
            Ok(_) => self.program.note(format_args!(
                "defrag: ends copying hot chunks by itself, because {why}; its copies stay"
            )),
            Err(e) => self.program.warn(format_args!("defrag: {e}")),
        }
    }

    /// The last run has ended or failed. Returns false if a command began it.
    pub fn ended(&mut self, failure: Option<&StoreError>) -> bool {
        let last = self.tasks.defrag.status().map(|status| status.run.report);
        let Some(report) = last.filter(|report| report.wish.is_by_server()) else {
            return false;
        };
        self.count(&report);
        if let Some(error) = failure {
            // Nobody has to resume what nobody has begun. The next try is in a day.
            let ended = self.tasks.defrag.stop(TaskPhase::AtRest);
            self.program.warn(format_args!(
                "defrag: ends copying hot chunks by itself: {}; the server tries again in a day",
                with_causes(error)
            ));
            if let Err(e) = ended {
                self.program.warn(format_args!("defrag: {e}"));
            }
        } else if report.stage == DefragStage::Done {
            let small = &report.counts.small;
            self.program.note(format_args!(
                "defrag: done: {} of hot chunks copied into small regions; a cold read of one fetched {}, now {}",
                sizes::display(small.bytes),
                sizes::display(small.before.bytes_each() as u64),
                sizes::display(small.after.bytes_each() as u64)
            ));
        }
        true
    }

    fn count(&mut self, report: &DefragReport) {
        let bytes = report.counts.small.bytes;
        let more = bytes.saturating_sub(self.counted_bytes);
        self.counted_bytes = self.counted_bytes.max(bytes);
        let update = |status: &mut HotChunksStatus| status.copied_bytes += more;
        self.tasks.hot_chunks.update(update);
    }
}

/// Returns the number of ranges and the weight of their requests.
fn weight(heat: &Heat) -> (usize, u64) {
    let ranges = heat.values().flatten();
    ranges.fold((0, 0u64), |(count, sum), range| {
        (count + 1, sum.saturating_add(range.weight))
    })
}
