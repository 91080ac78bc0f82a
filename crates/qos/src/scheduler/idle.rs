//! Idle time: when maintenance may use it, for how long, and which task.
//!
//! A task that reads in order keeps the device until a user arrives, or until it had much more idle
//! time than the others. Between two steps the scheduler waits for it as long as a seek takes.
//! Random reads move the head, which delays users. So they are spaced as [`crate::grace`] has
//! learned.
//!
//! The scheduler calls this; a task that holds an I/O grant does so through the `device` crate.
//! Invariant: no task continues after a user has arrived.

use super::{FRACTION, Moment, Scheduler};
use crate::flow::Flow;

/// How much more idle time, divided by weight, one task may have than the others before it yields.
const GOES_ON_NS: u64 = 250_000_000;
/// A user that made no request for this long is not expected at any moment.
const ABSENT_NS: u64 = 1_000_000_000;

impl Scheduler {
    /// Charges `bytes` more to a task that was admitted at `since_ns` to an idle device
    /// ([`super::Grant::Idle`]) and still uses it. Returns false if a user has arrived, if it is
    /// too early for a seek, or if another task is due. The caller then completes the request at
    /// once and offers another one.
    pub fn go_on(
        &mut self,
        flow: Flow,
        is_sequential: bool,
        bytes: u64,
        (since_ns, now_ns): (u64, u64),
    ) -> bool {
        let may = self.may_go_on(flow, is_sequential, (since_ns, now_ns));
        if may {
            let cost_ns = self.settings.costs.of(is_sequential, bytes);
            let set = self.settings.floor(flow);
            let weighed = self.weighed(flow, cost_ns);
            let lane = self.lane_mut(flow);
            lane.had += weighed;
            lane.floor.had_for_nothing(cost_ns, set);
        }
        if may && !is_sequential {
            self.seeks(now_ns);
        }
        may
    }

    /// Returns the result of [`go_on`](Self::go_on) without charging anything.
    pub fn may_go_on(
        &self,
        flow: Flow,
        is_sequential: bool,
        (since_ns, now_ns): (u64, u64),
    ) -> bool {
        let is_alone =
            self.moment() == Moment::Gap && self.user_at_ns.is_none_or(|at_ns| at_ns < since_ns);
        let may_seek = is_sequential || self.seek_at(now_ns) <= now_ns;
        is_alone && may_seek && !self.is_far_ahead(flow, now_ns)
    }

    /// Returns true if another waiting task had much less idle time and may begin now.
    fn is_far_ahead(&self, flow: Flow, now_ns: u64) -> bool {
        let least = self.least(true, |other| self.may_begin(other, now_ns));
        least.is_some_and(|least| {
            let ahead = self.lane(flow).had.saturating_sub(self.lane(least).had);
            ahead >= u128::from(GOES_ON_NS) << FRACTION
        })
    }

    /// Records a seek in idle time. The next one is allowed after a learned time.
    pub fn seeks(&mut self, now_ns: u64) {
        let takes_ns = self.settings.costs.seek_ns;
        self.seek_at_ns = now_ns
            .saturating_add(takes_ns)
            .saturating_add(self.grace.space_ns());
    }

    /// Returns when the head may move in idle time for a non-contiguous request.
    pub(super) fn seek_at(&self, now_ns: u64) -> u64 {
        let is_absent = |came_ns: u64| now_ns.saturating_sub(came_ns) >= ABSENT_NS;
        match self.user_at_ns.is_none_or(is_absent) {
            true => 0,
            false => self.seek_at_ns,
        }
    }

    /// Returns the learned time without user requests after which the device is idle, nanoseconds.
    pub fn grace_ns(&self) -> u64 {
        self.grace.ns()
    }

    /// Returns the factor by which maintenance raised the 99th percentile of clients' latencies in
    /// the last judgement; 1 before the first.
    pub fn harm(&self) -> f64 {
        self.grace.harm()
    }

    /// Records that one read or write of maintenance took `took_ns` at the device. `idle_time` is
    /// `None` outside idle time, otherwise whether the read needed a seek. The learned times follow
    /// from this.
    pub fn piece_took(&mut self, flow: Flow, idle_time: Option<bool>, took_ns: u64, now_ns: u64) {
        if let Some(is_seek) = idle_time {
            self.grace.took(is_seek, took_ns);
        }
        self.grace.maintenance_completed(now_ns);
        self.lane_mut(flow).is_measured = true;
    }

    /// Returns true if no user request was there for the learned time.
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.idle_at().is_some_and(|at| at <= now_ns)
    }

    /// Returns the time from which the device is idle if no user arrives; `None` while a user
    /// request is there.
    pub(super) fn idle_at(&self) -> Option<u64> {
        let after_ns = self.grace.ns();
        let at = self.user_at_ns.map_or(0, |at| at.saturating_add(after_ns));
        (self.moment() == Moment::Gap).then_some(at)
    }

    /// Returns the maintenance task that keeps the head: it reads in order and had not much more
    /// than the others. Also returns until when the scheduler waits for it while it has no request.
    pub(super) fn stays_until(&self, now_ns: u64) -> Option<(Flow, u64)> {
        let last = self.maintained.filter(|_| self.is_streaming)?;
        let lane = self.lane(last);
        if self.is_far_ahead(last, now_ns) {
            return None;
        }
        let until_ns = match lane.queue.is_empty() && lane.in_flight == 0 {
            // Leaving and returning would cost two seeks.
            true => self.left_at_ns.saturating_add(self.settings.costs.seek_ns),
            false => u64::MAX,
        };
        (until_ns > now_ns).then_some((last, until_ns))
    }

    /// Returns true if the next request of this flow begins where the head is.
    pub(super) fn is_where(&self, flow: Flow) -> bool {
        let is_last = self.is_streaming && self.maintained == Some(flow);
        is_last && self.lane(flow).queue.is_in_order()
    }

    /// Returns the maintenance task to serve in idle time: the one that keeps the head, otherwise
    /// the one that had least of those that may move the head.
    pub(super) fn idle_turn(&self, now_ns: u64) -> Option<Flow> {
        if let Some((stays, _)) = self.stays_until(now_ns) {
            let lane = self.lane(stays);
            let may = lane.queue.is_in_order() || self.seek_at(now_ns) <= now_ns;
            return (may && !lane.queue.is_empty()).then_some(stays);
        }
        self.least(true, |flow| self.may_begin(flow, now_ns))
    }

    /// Returns true if the first request of a maintenance task may use idle time: it is in order,
    /// or a seek is allowed.
    fn may_begin(&self, flow: Flow, now_ns: u64) -> bool {
        let is_time = self.seek_at(now_ns) <= now_ns || self.lane(flow).queue.is_in_order();
        flow.is_maintenance() && is_time
    }
}
