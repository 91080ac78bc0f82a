//! Idle time: when maintenance may begin there, how long it goes on, and who of it has the device.
//!
//! A task that reads in order keeps the device until a user comes, or until it has had much more than the
//! others; between two steps it is waited for, for as long as a seek takes. Reads here and there move the head,
//! which is what users notice, so they are spaced as [`crate::grace`] has learned.
//!
//! Invariant: nobody goes on once a user has come. Called by the scheduler, and by who has a turn.

use super::{FRACTION, Moment, Scheduler};
use crate::flow::Flow;

/// Of idle time by weight, what one task may have more than the others before its turn ends.
const GOES_ON_NS: u64 = 500_000_000;
/// Whoever has not come for so long does not come at any moment.
const ABSENT_NS: u64 = 1_000_000_000;

impl Scheduler {
    /// A task that was let in at `since_ns` because the device was idle ([`Grant::Idle`]), and still is at the
    /// device, wants to read or write so many bytes more, contiguous or not. False: a user has come, or it is
    /// not time for a seek; its request is completed at once, and another one offered.
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

    /// What [`go_on`](Self::go_on) would say.
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

    /// True when others wait that have had much less of idle time, and that may move the head now.
    fn is_far_ahead(&self, flow: Flow, now_ns: u64) -> bool {
        let least = self.least(true, |other| self.may_begin(other, now_ns));
        least.is_some_and(|least| {
            let ahead = self.lane(flow).had.saturating_sub(self.lane(least).had);
            ahead >= u128::from(GOES_ON_NS) << FRACTION
        })
    }

    /// The head moves now, in idle time: not again for a while.
    pub fn seeks(&mut self, now_ns: u64) {
        let takes_ns = self.settings.costs.seek_ns;
        self.seek_at_ns = now_ns
            .saturating_add(takes_ns)
            .saturating_add(self.grace.space_ns());
    }

    /// When the head may move again in idle time, for what is not contiguous.
    pub(super) fn seek_at(&self, now_ns: u64) -> u64 {
        let is_absent = |came_ns: u64| now_ns.saturating_sub(came_ns) >= ABSENT_NS;
        match self.user_at_ns.is_none_or(is_absent) {
            true => 0,
            false => self.seek_at_ns,
        }
    }

    /// How long no user must have wanted anything for the device to be idle, nanoseconds: as learned.
    pub fn grace_ns(&self) -> u64 {
        self.grace.ns()
    }

    /// What maintenance did to the 99th percentile of clients' latencies when it was judged last, as a
    /// factor; 1 before that.
    pub fn harm(&self) -> f64 {
        self.grace.harm()
    }

    /// What maintenance read or wrote at once took so long at the device; `idle_time`: in idle time, with a seek or
    /// without. How long users should be waited for is learned from that.
    pub fn piece_took(&mut self, flow: Flow, idle_time: Option<bool>, took_ns: u64, now_ns: u64) {
        if let Some(is_seek) = idle_time {
            self.grace.took(is_seek, took_ns);
        }
        self.grace.maintenance_completed(now_ns);
        self.lane_mut(flow).is_measured = true;
    }

    /// Whether no user has wanted anything for a while.
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.idle_at().is_some_and(|at| at <= now_ns)
    }

    /// When the device will be idle, or since when it is, if no user comes; `None` while one is there.
    pub(super) fn idle_at(&self) -> Option<u64> {
        let after_ns = self.grace.ns();
        let at = self.user_at_ns.map_or(0, |at| at.saturating_add(after_ns));
        (self.moment() == Moment::Gap).then_some(at)
    }

    /// The maintenance task that the head stays with: it reads in order, and it is not ahead of the others by
    /// much. With the time until which it is waited for, if it does not wait itself.
    pub(super) fn stays_until(&self, now_ns: u64) -> Option<(Flow, u64)> {
        let last = self.maintained.filter(|_| self.is_streaming)?;
        let lane = self.lane(last);
        if self.is_far_ahead(last, now_ns) {
            return None;
        }
        let until_ns = match lane.queue.is_empty() && lane.in_flight == 0 {
            // To leave and to come back costs two seeks.
            true => self.left_at_ns.saturating_add(self.settings.costs.seek_ns),
            false => u64::MAX,
        };
        (until_ns > now_ns).then_some((last, until_ns))
    }

    /// True when the next request of this flow is where the head is.
    pub(super) fn is_where(&self, flow: Flow) -> bool {
        let is_last = self.is_streaming && self.maintained == Some(flow);
        is_last && self.lane(flow).queue.is_in_order()
    }

    /// Of the maintenance tasks that wait: the one that the head stays with, or the one that has had least of
    /// those that may move it.
    pub(super) fn idle_turn(&self, now_ns: u64) -> Option<Flow> {
        if let Some((stays, _)) = self.stays_until(now_ns) {
            let lane = self.lane(stays);
            let may = lane.queue.is_in_order() || self.seek_at(now_ns) <= now_ns;
            return (may && !lane.queue.is_empty()).then_some(stays);
        }
        self.least(true, |flow| self.may_begin(flow, now_ns))
    }

    /// Whether the first request of a maintenance task may have idle time: it is in order, or it is time for a
    /// seek.
    fn may_begin(&self, flow: Flow, now_ns: u64) -> bool {
        let is_time = self.seek_at(now_ns) <= now_ns || self.lane(flow).queue.is_in_order();
        flow.is_maintenance() && is_time
    }
}
