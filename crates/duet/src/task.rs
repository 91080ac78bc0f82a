//! A maintenance task, as the driver sees it. Scrub, replication and defragmentation implement it,
//! and backups of a host will.
//!
//! Invariant: a task has the same effect whatever the order of its units.

use crate::page::{Item, Page};
use crate::work::Work;

/// Resources that a step may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Memory only; no I/O grant is needed.
    Memory,
    /// The device too: the task has an I/O grant.
    Device,
}

/// A maintenance task.
pub trait Task {
    /// Error of a failed unit.
    type Error;

    /// Returns the unit that a page belongs to; `None` if there is none or it is not known yet.
    /// Fast.
    fn work_of(&self, page: &Page) -> Option<Work>;

    /// Visits the units that a page belongs to, for tasks in which several may share a page. Fast.
    fn visit_works(&self, page: &Page, visit: &mut dyn FnMut(Work)) {
        self.work_of(page).into_iter().for_each(visit);
    }

    /// Returns the number of the unit's pages that are in memory now, if the task can tell; then
    /// events only say when to ask. Asked when a page of the unit is reported, when the look-ahead
    /// reaches the unit, and before it is done without the device.
    fn resident_pages(&self, _work: Work) -> Option<u64> {
        None
    }

    /// Returns the number of pages of a unit. Fast.
    fn pages(&self, work: Work) -> u64;

    /// Returns the value of a unit that has `cached_pages` in memory. The highest is done first; 0
    /// is not worth leaving the order for; ties go to the lower unit. Default: the fraction of its
    /// pages in memory. Garbage collection would weigh benefit against bytes to read.
    fn score(&self, work: Work, cached_pages: u64) -> u64 {
        let pages = self.pages(work).max(1);
        let cached_pages = cached_pages.min(pages);
        ((u128::from(cached_pages) << 32) / u128::from(pages)) as u64
    }

    /// Returns the unit after `after` in the task's own order (`None`: the first one); `None` at
    /// the end. If the order changes over time (currently best first), it has no "after": it
    /// returns the first unit that is neither done nor returned before, and `None` if there is
    /// none.
    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, Self::Error>;

    /// Returns true to leave a unit for the end of the own order, which asks when it comes to the
    /// unit, and only then. Fast.
    fn is_last(&mut self, _work: Work) -> bool {
        false
    }

    /// Gets an item before the queue does. Example scrub: an added page was verified, so its unit
    /// may be done; a written page must be done again.
    fn hear(&mut self, _item: &Item) -> News {
        News::None
    }

    /// Does about `budget_bytes` of I/O for the unit, then returns. It is called with the same unit
    /// until that is done or has failed, unless the task interleaves units.
    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed, Self::Error>;

    /// Returns the bytes of a step that count for the rate limit. Default: those that it read from
    /// devices and wrote.
    fn limited_bytes(&mut self, processed: &Processed) -> u64 {
        processed.bytes_read + processed.bytes_written
    }
}

/// Meaning of an item for a task, besides presence in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// None.
    None,
    /// Another task or a client has done this unit.
    Done(Work),
    /// This unit, if it was done, must be done again.
    Undone(Work),
}

/// Result of a call of [`Task::process`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Processed {
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// Bytes found in memory.
    pub bytes_cached: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The unit is complete.
    pub is_done: bool,
    /// The unit was chosen because it was in memory, but the rest of it is not: that needs the
    /// device.
    pub needs_device: bool,
}
