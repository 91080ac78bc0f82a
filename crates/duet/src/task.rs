//! What a maintenance task is to the driver, and no more.
//!
//! Invariant: a task does the same whatever the order in which it is asked. Implemented by scrub,
//! garbage collection, replication, defragmentation and backup of a host.

use crate::page::{Item, Page};
use crate::work::Work;

/// What a step may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// What is in memory: no turn at the device is needed.
    Memory,
    /// The device too: it is the task's turn there.
    Device,
}

/// A maintenance task.
pub trait Task {
    /// Why work failed.
    type Error;

    /// The work that a page belongs to; `None`: no work, or not known yet. Takes no time.
    fn work_of(&self, page: &Page) -> Option<Work>;

    /// How many pages a work has. Takes no time.
    fn pages(&self, work: Work) -> u64;

    /// What a work is worth now that so many of its pages are in memory: the highest first, 0 is
    /// not worth going out of order; ties go to the lower work. The share of pages in memory,
    /// unless the task knows better (garbage collection: benefit and cost of what has to be read).
    fn score(&self, work: Work, cached_pages: u64) -> u64 {
        let pages = self.pages(work).max(1);
        let cached_pages = cached_pages.min(pages);
        ((u128::from(cached_pages) << 32) / u128::from(pages)) as u64
    }

    /// The work after `after` in the task's own order, the first one (`None`); `None` at the end. An
    /// order that changes (what is worth most now) has no "after": it gives the first work that is
    /// neither done nor given before, and `None` when there is none.
    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, Self::Error>;

    /// Hears of a page before the queue does. Of a scrub, a page that was added was verified: its
    /// work may be done; what is written has to be done again.
    fn hear(&mut self, _item: &Item) -> News {
        News::None
    }

    /// Does some of the work: about `budget_bytes` of I/O, then returns. It is called with the
    /// same work until it is done or has failed.
    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed, Self::Error>;
}

/// What an item means to a task, beside presence in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Nothing.
    None,
    /// This work has been done by somebody else.
    Done(Work),
    /// This work, if it was done, has to be done again.
    Undone(Work),
}

/// What a call of [`Task::process`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Processed {
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// Bytes that were in memory.
    pub bytes_cached: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Nothing of the work is left.
    pub is_done: bool,
}
