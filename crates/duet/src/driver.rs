//! The driver of maintenance tasks: work on what is in memory first, else in the task's own order.
//!
//! Invariant: every work of the task's own order is done, or has failed, when the driver says that
//! it has finished; whatever events came, came late or never came. Each step is bounded. Called by
//! whoever runs maintenance: a thread, or a seed in the simulator.

mod choice;
mod pace;
mod queue;
mod status;

use crate::page::{Events, Item, Mask};
use crate::progress::{Counts, Progress};
use crate::session::{Present, Session};
use crate::task::{Access, News, Task};
use crate::work::{Work, WorkSet};
use pace::Pace;
use queue::Queue;
pub use status::{Status, Step};
use std::collections::VecDeque;

/// How a driver goes about its task.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Items fetched in a step, at most.
    pub items_max: usize,
    /// Works in the priority queue, at most; of the others nothing is remembered.
    pub works_max: usize,
    /// Of the own order, only so many works from the first on that is not done may be done; so
    /// that many, less one, are out of order at most. `None`: any.
    pub lookahead: Option<usize>,
    /// Bytes read and written, at most.
    pub bytes_per_s: Option<u64>,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            items_max: 1024,
            works_max: 1 << 16,
            lookahead: None,
            bytes_per_s: None,
        }
    }
}

impl DriverOptions {
    /// For receivers that accept files nearly in order: as Duet's rsync, 100 files.
    pub fn nearly_in_order() -> Self {
        Self {
            lookahead: Some(100),
            ..Self::default()
        }
    }
}

/// A work of the own order that was asked for.
struct Ahead {
    work: Work,
    /// What the task was asked for to get it: all up to there is done, has failed, or is begun.
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
    /// The own order was asked for up to here; true at its end.
    reached: (Option<Work>, bool),
    current: Option<Work>,
    /// All of the current work was in memory when it was chosen.
    is_resident: bool,
    /// What was done of the current work may have to be done again.
    is_stale: bool,
    failed: WorkSet,
    again: WorkSet,
    counts: Counts,
    pace: Pace,
    items: Vec<Item>,
}

impl Driver {
    /// Goes on where `progress` ends; what had failed is tried again. None of the work of the
    /// session is done yet, and nobody else fetches from it.
    pub fn new(session: Session, options: DriverOptions, progress: Progress) -> Self {
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

    /// Hears what has happened, then does some work: about `budget_bytes` of I/O. It is `now_ns`,
    /// nanoseconds since any moment. An error of the own order changes nothing: step again. With
    /// [`Access::Memory`] it does what is in memory as a whole, and then says that it needs the device.
    pub fn step<T: Task>(
        &mut self,
        task: &mut T,
        present: &dyn Present,
        now_ns: u64,
        (budget_bytes, access): (u64, Access),
    ) -> Result<Step<T::Error>, T::Error> {
        match self.phase {
            Phase::Running => {}
            Phase::Paused => return Ok(Step::Paused),
            Phase::Cancelled => return Ok(Step::Cancelled),
        }
        let heard = self.hear(task, present);
        if let Some(until_ns) = self.pace.waits_until(now_ns) {
            return Ok(Step::Waiting { until_ns });
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
                _ if self.is_over() && self.current.is_none() => Step::Finished,
                // More may be to be heard.
                Access::Memory if heard == 0 => Step::NeedsDevice,
                Access::Memory | Access::Device => Step::Looked,
            });
        };
        let processed = match task.process(work, budget_bytes) {
            Ok(processed) => processed,
            Err(error) => {
                self.current = None;
                self.failed.insert(work);
                return Ok(Step::Failed { work, error });
            }
        };
        self.counts.bytes_read += processed.bytes_read;
        self.counts.bytes_cached += processed.bytes_cached;
        self.counts.bytes_written += processed.bytes_written;
        self.pace
            .spend(processed.bytes_read + processed.bytes_written);
        if processed.is_done {
            self.current = None;
            self.is_done(task, work);
            if self.is_stale {
                self.is_undone(task, work);
            }
        }
        Ok(Step::Worked { work, processed })
    }

    /// How many items there were.
    fn hear<T: Task>(&mut self, task: &mut T, present: &dyn Present) -> usize {
        if self.session.lost() > 0 {
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
        let Some(work) = task.work_of(&item.page) else {
            return;
        };
        let score = |cached_pages| task.score(work, cached_pages);
        if item.events.has(Events::REMOVED) {
            self.queue.removed(&item.page, work, score);
        }
        if item.events.has(Events::ADDED) && !self.is_settled(work) && self.current != Some(work) {
            let is_ready = self.options.lookahead.is_none()
                || self.ahead.iter().any(|ahead| ahead.work == work);
            self.queue.added(&item.page, work, is_ready, score);
        }
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
        self.reached.1 && self.ahead.is_empty() && self.again.is_empty()
    }

    /// Done, or failed: not to be chosen.
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

    /// Goes on after a pause.
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

    /// Another rate limit, from now on.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.options.bytes_per_s = bytes_per_s;
        self.pace.limit(bytes_per_s);
    }

    /// The session, to ask about work, and to say that objects were moved.
    pub fn session(&self) -> &Session {
        &self.session
    }
}
