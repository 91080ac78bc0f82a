//! Chooses the next unit. [`Driver::step`] calls this.
//!
//! Invariant: a unit that is neither done nor failed is in the own order after `reached`, in
//! `ahead`, in `again`, or is the current one. A choice asks the task for a bounded number of
//! units.

use super::{Ahead, Driver};
use crate::task::Task;
use crate::work::Work;

/// Maximum number of done units of the own order that one step skips.
const PASSED_MAX: usize = 256;

impl Driver {
    /// Returns `None` if this step found no unit, or if none is left.
    pub(super) fn choose<T: Task>(&mut self, task: &mut T) -> Result<Option<Work>, T::Error> {
        self.look_ahead(task, self.options.lookahead.unwrap_or(0))?;
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
            let is_settled = self.is_settled(work);
            if !is_settled && cached_pages < task.pages(work) {
                return None;
            }
            self.queue.pop();
            if !is_settled {
                return Some(work);
            }
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
        let mut passed = 0;
        while self.ahead.len() < works && !self.reached.1 && passed < PASSED_MAX {
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
            self.queue.admit(work);
        }
        Ok(())
    }
}
