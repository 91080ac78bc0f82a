//! Chooses the next unit. [`Driver::step`] calls this.
//!
//! Invariant: a unit that is neither done nor failed is in the own order after `reached`, in
//! `ahead`, in `again`, in `left`, or is the current one. A choice asks the task for a bounded
//! number of units.

use super::{Ahead, Driver};
use crate::task::Task;
use crate::work::Work;

/// Maximum number of done units of the own order that one step skips.
const PASSED_MAX: usize = 256;

impl Driver {
    /// Returns `None` if this step found no unit, or if none is left.
    pub(super) fn choose<T: Task>(&mut self, task: &mut T) -> Result<Option<Work>, T::Error> {
        while let Some(work) = self.left.pop() {
            if !self.is_settled(work) {
                return Ok(Some(work));
            }
        }
        let lookahead = self.options.lookahead.unwrap_or(0);
        self.look_ahead(task, lookahead)?;
        // Later units may be in memory: fill the look-ahead before anything is read.
        if self.options.asks_max < lookahead && self.ahead.len() < lookahead && !self.reached.1 {
            return Ok(None);
        }
        while let Some(work) = self.queue.pop() {
            // If it is in `ahead` too, it is settled when its turn comes.
            if !self.is_settled(work) {
                return Ok(Some(work));
            }
        }
        self.look_ahead(task, 1)?;
        if let Some(Ahead { work, .. }) = self.ahead.pop_front() {
            self.queue.forget(work);
            return Ok(Some(work));
        }
        if !self.reached.1 {
            return Ok(None);
        }
        while let Some(work) = self.again.first() {
            self.again.remove(work);
            if !self.is_settled(work) {
                self.queue.forget(work);
                return Ok(Some(work));
            }
        }
        Ok(None)
    }

    /// Returns the best unit if all of its pages are in memory.
    pub(super) fn choose_resident<T: Task>(&mut self, task: &T) -> Option<Work> {
        loop {
            let (work, cached_pages) = self.queue.first()?;
            if self.is_settled(work) {
                self.queue.forget(work);
                continue;
            }
            if cached_pages < task.pages(work) {
                return None;
            }
            // Some of them may have left memory unreported.
            let pages = task.resident_pages(work).unwrap_or(cached_pages);
            if pages >= task.pages(work) {
                self.queue.forget(work);
                return Some(work);
            }
            let score = |cached_pages| task.score(work, cached_pages);
            self.queue.set(work, pages, true, score);
        }
    }

    /// Asks for the next units of the own order until `ahead` has `works` of them. Drops settled
    /// ones at the front. Those that the task wants last are done with the ones in `again`, in
    /// their order.
    fn look_ahead<T: Task>(&mut self, task: &mut T, works: usize) -> Result<(), T::Error> {
        while let Some(first) = self.ahead.front()
            && self.is_settled(first.work)
        {
            self.ahead.pop_front();
        }
        let (mut passed, mut asked) = (0, 0);
        while self.ahead.len() < works
            && !self.reached.1
            && passed < PASSED_MAX
            && asked < self.options.asks_max
        {
            asked += 1;
            let after = self.reached.0;
            let Some(work) = task.next(after)? else {
                self.reached.1 = true;
                break;
            };
            self.reached.0 = Some(work);
            if self.is_settled(work) {
                passed += 1;
                continue;
            }
            if task.is_last(work) {
                self.again.insert(work);
                passed += 1;
                continue;
            }
            self.ahead.push_back(Ahead { work, after });
            match task.resident_pages(work) {
                Some(pages) => {
                    let score = |cached_pages| task.score(work, cached_pages);
                    self.queue.set(work, pages, true, score);
                }
                None => self.queue.admit(work),
            }
        }
        Ok(())
    }
}
