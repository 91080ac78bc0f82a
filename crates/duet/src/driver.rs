//! The driver of maintenance tasks: work on pages in memory first, else in the task's own order.
//!
//! Called by the owner of a task: a maintenance thread, or a seed in the simulator.
//!
//! Invariant: when the driver reports that it has finished, every unit of the task's own order is
//! done or has failed, whichever events were late or lost. Each step is bounded.

mod choice;
mod pace;
mod queue;
mod status;

use crate::page::{Events, Item, Mask};
use crate::progress::{TaskCounts, TaskProgress};
use crate::session::{Present, Session};
use crate::task::{Access, News, Task};
use crate::work::{Work, WorkSet};
pub use pace::Pace;
use queue::Queue;
pub use status::{DriverStep, Status};
use std::collections::VecDeque;

/// Fetches of events for one choice from memory. A table that overflows again and again would have
/// more events for ever.
const LOOKS_MAX: usize = 32;

/// Limits of a driver.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Maximum number of items fetched in a step.
    pub items_max: usize,
    /// Maximum number of units in the priority queue. Nothing is remembered of the others.
    pub works_max: usize,
    /// Units of the own order that may be done, counted from the first one that is not done. At
    /// most one less is out of order. `None`: any unit.
    pub lookahead: Option<usize>,
    /// Maximum number of units that a step asks the own order for to fill the look-ahead. For tasks
    /// whose next unit costs reads: the look-ahead is then filled in several steps.
    pub asks_max: usize,
    /// Units may be left and continued later, so that one that needs the device delays none that is
    /// in memory. For tasks that report no undone units.
    pub interleaves: bool,
    /// Maximum rate of bytes read and written.
    pub bytes_per_s: Option<u64>,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            items_max: 1024,
            works_max: 1 << 16,
            lookahead: None,
            asks_max: usize::MAX,
            interleaves: false,
            bytes_per_s: None,
        }
    }
}

impl DriverOptions {
    /// Options for receivers that accept files nearly in order: 100 files, as in Duet's rsync.
    pub fn nearly_in_order() -> Self {
        Self {
            lookahead: Some(100),
            ..Self::default()
        }
    }
}

/// A unit that the task's own order has returned.
struct Ahead {
    work: Work,
    /// Position before this unit: all units up to there are done, have failed, or are in progress.
    after: Option<Work>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Paused,
    Cancelled,
}

/// See the module's head.
pub struct Driver {
    session: Session,
    counts_presence: bool,
    options: DriverOptions,
    phase: Phase,
    queue: Queue,
    ahead: VecDeque<Ahead>,
    /// Position up to which the own order was asked; true at its end.
    reached: (Option<Work>, bool),
    current: Option<Work>,
    /// Fetches since the last choice from memory, or the last step that needed the device.
    looks: usize,
    /// Units that were left for some in memory.
    left: Vec<Work>,
    /// All pages of the current unit were in memory when it was chosen.
    is_resident: bool,
    /// Parts of the current unit may have to be done again.
    is_stale: bool,
    failed: WorkSet,
    again: WorkSet,
    counts: TaskCounts,
    pace: Pace,
    items: Vec<Item>,
}

impl Driver {
    /// Continues at `progress` and tries failed units again. The session must have no done work,
    /// and nothing else may fetch from it.
    pub fn new(session: Session, options: DriverOptions, progress: TaskProgress) -> Self {
        let mut again = progress.again;
        for range in progress.failed.ranges() {
            again.insert_range(range);
        }
        let part_bits = progress.done.part_bits();
        session.set_all_done(progress.done);
        Self {
            counts_presence: session.mask().has_state(Mask::EXISTS),
            session,
            phase: Phase::Running,
            queue: Queue::new(options.works_max),
            ahead: VecDeque::new(),
            reached: (progress.position, false),
            current: None,
            looks: 0,
            left: Vec::new(),
            is_resident: false,
            is_stale: false,
            failed: WorkSet::new(part_bits),
            again,
            counts: progress.counts,
            pace: Pace::new(options.bytes_per_s),
            items: Vec::new(),
            options,
        }
    }

    /// Fetches events, then does about `budget_bytes` of I/O. `now_ns`: nanoseconds since any fixed
    /// moment. An error of the own order changes nothing: step again. With [`Access::Memory`] it
    /// does the units that are completely in memory, then returns [`DriverStep::NeedsDevice`].
    pub fn step<T: Task>(
        &mut self,
        task: &mut T,
        present: &dyn Present,
        now_ns: u64,
        (budget_bytes, access): (u64, Access),
    ) -> Result<DriverStep<T::Error>, T::Error> {
        match self.phase {
            Phase::Running => {}
            Phase::Paused => return Ok(DriverStep::Paused),
            Phase::Cancelled => return Ok(DriverStep::Cancelled),
        }
        let heard = self.hear(task, present);
        if let Some(until_ns) = self.pace.waits_until(now_ns) {
            return Ok(DriverStep::Waiting { until_ns });
        }
        if access == Access::Memory
            && self.options.interleaves
            && !self.is_resident
            && let Some(begun) = self.current
            && let Some(work) = self.choose_resident(task)
        {
            self.left.push(begun);
            (self.current, self.is_resident, self.is_stale) = (Some(work), true, false);
        }
        if self.current.is_none() {
            self.current = match access {
                Access::Memory => self.choose_resident(task),
                Access::Device => self.choose(task)?,
            };
            self.is_resident = access == Access::Memory;
            self.is_stale = false;
        }
        let may = access == Access::Device || self.is_resident;
        let Some(work) = self.current.filter(|_| may) else {
            return Ok(match access {
                _ if self.is_over() && self.current.is_none() => DriverStep::Finished,
                // More events may be pending.
                Access::Memory if heard == 0 || self.looks >= LOOKS_MAX => {
                    self.looks = 0;
                    DriverStep::NeedsDevice
                }
                Access::Memory => {
                    self.looks += 1;
                    DriverStep::Looked
                }
                Access::Device => DriverStep::Looked,
            });
        };
        self.looks = 0;
        let processed = match task.process(work, budget_bytes) {
            Ok(processed) => processed,
            Err(error) => {
                self.current = None;
                self.failed.insert(work);
                return Ok(DriverStep::Failed { work, error });
            }
        };
        self.counts.bytes_read += processed.bytes_read;
        self.counts.bytes_cached += processed.bytes_cached;
        self.counts.bytes_written += processed.bytes_written;
        self.pace.spend(task.limited_bytes(&processed));
        if processed.needs_device && access == Access::Memory {
            self.is_resident = false;
            let is_idle = processed.bytes_read + processed.bytes_cached == 0;
            if is_idle && !processed.is_done {
                return Ok(DriverStep::NeedsDevice);
            }
        }
        if processed.is_done {
            self.current = None;
            self.is_done(task, work);
            if self.is_stale {
                self.is_undone(task, work);
            }
        }
        Ok(DriverStep::Worked { work, processed })
    }

    /// Fetches events. Returns the number of items. Lost ones are replayed only if they are states.
    fn hear<T: Task>(&mut self, task: &mut T, present: &dyn Present) -> usize {
        // Starting again drops the items that were not lost.
        if self.counts_presence && self.session.lost() > 0 {
            self.queue.clear();
            self.session.resync();
        }
        let mut items = std::mem::take(&mut self.items);
        self.session
            .fetch(present, self.options.items_max, &mut items);
        let heard = items.len();
        for item in items.drain(..) {
            match task.hear(&item) {
                News::None => {}
                News::Done(work) => self.is_done(task, work),
                News::Undone(work) => self.is_undone(task, work),
            }
            if self.counts_presence {
                self.count(task, &item);
            }
        }
        self.items = items;
        heard
    }

    fn count<T: Task>(&mut self, task: &T, item: &Item) {
        let Item { page, events } = item;
        task.visit_works(page, &mut |work| {
            let score = |cached_pages| task.score(work, cached_pages);
            if events.has(Events::REMOVED) {
                self.queue.removed(page, work, score);
            }
            let is_open = !self.is_settled(work) && self.current != Some(work);
            if !is_open || !events.has(Events::ADDED) {
                return;
            }
            let is_ready = self.options.lookahead.is_none()
                || self.ahead.iter().any(|ahead| ahead.work == work);
            match task.resident_pages(work) {
                Some(pages) => self.queue.set(work, pages, is_ready, score),
                None => self.queue.added(page, work, is_ready, score),
            }
        });
    }

    fn is_done<T: Task>(&mut self, task: &T, work: Work) {
        self.failed.remove(work);
        self.again.remove(work);
        self.queue.forget(work);
        if self.session.set_done(work) {
            let pages = task.pages(work);
            self.counts.pages_done = self.counts.pages_done.saturating_add(pages);
            self.pace.done(pages);
        }
    }

    fn is_undone<T: Task>(&mut self, task: &T, work: Work) {
        self.is_stale |= self.current == Some(work);
        if self.session.unset_done(work) {
            let pages = task.pages(work);
            self.counts.pages_done = self.counts.pages_done.saturating_sub(pages);
            self.again.insert(work);
        }
    }

    fn is_over(&self) -> bool {
        self.reached.1 && self.ahead.is_empty() && self.again.is_empty() && self.left.is_empty()
    }

    /// Returns true if the unit is done or has failed, so it must not be chosen.
    fn is_settled(&self, work: Work) -> bool {
        self.session.check_done(work) || self.failed.contains(work)
    }

    /// Stops until [`resume`](Self::resume).
    pub fn pause(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Paused;
            self.pace.stop();
        }
    }

    /// Continues after a pause.
    pub fn resume(&mut self) {
        if self.phase == Phase::Paused {
            self.phase = Phase::Running;
        }
    }

    /// Stops for good; the progress stays.
    pub fn cancel(&mut self) {
        self.phase = Phase::Cancelled;
        self.queue.clear();
    }

    /// Counts bytes for the rate limit that no step has processed.
    pub fn spend(&mut self, bytes: u64) {
        self.pace.spend(bytes);
    }

    /// Returns when the rate limit allows more; `None` if it does now.
    pub fn waits_until(&mut self, now_ns: u64) -> Option<u64> {
        self.pace.waits_until(now_ns)
    }

    /// Changes the rate limit.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.options.bytes_per_s = bytes_per_s;
        self.pace.limit(bytes_per_s);
    }

    /// The session: to ask about done work, and to report moved objects.
    pub fn session(&self) -> &Session {
        &self.session
    }
}
