//! I/O floors: device time that a maintenance task gets on a device that is never idle.
//!
//! A task earns its share of passing time. It spends what it earned in a gap between user requests,
//! or after [`PATIENCE_NS`] without a gap while users wait.
//!
//! The scheduler calls this.
//! Invariant: over any interval, a floor yields at most its share of the interval, plus its
//! earnings during [`PATIENCE_NS`], plus one request.

/// Remaining work of a maintenance task, and when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// Device time that is still needed, nanoseconds.
    pub work_ns: u64,
    /// When the work is due.
    pub at_ns: u64,
}

const MILLION: u64 = 1_000_000;
/// A task that may spend looks for a gap between user requests for this long.
const PATIENCE_NS: u64 = 500_000_000;

/// Whether a user request waits or is at the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// No user request is there.
    Gap,
    /// A user request is there.
    InUse,
}

impl Moment {
    /// Returns the credit that a task needs to spend now. With a full credit it spends even while
    /// users wait.
    fn needed_ns(self, share: u64) -> i64 {
        match self {
            Self::Gap => 0,
            Self::InUse => saved_max_ns(share),
        }
    }
}

/// Returns the maximum credit: earnings during [`PATIENCE_NS`].
fn saved_max_ns(share: u64) -> i64 {
    i64::try_from(PATIENCE_NS / MILLION * share).unwrap_or(i64::MAX)
}

/// Earned and unspent time of one task.
#[derive(Clone, Copy, Default)]
pub(crate) struct Floor {
    /// Negative: the task had more than its share.
    credit_ns: i64,
    then_ns: Option<u64>,
    deadline: Option<Deadline>,
}

impl Floor {
    pub fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
    }

    /// Returns the share that the deadline needs, millionths: remaining work divided by remaining
    /// time. 0 without a deadline.
    pub fn needed(&self, now_ns: u64) -> u64 {
        self.deadline.map_or(0, |deadline| {
            let left_ns = deadline.at_ns.saturating_sub(now_ns).max(1);
            let needed = u128::from(deadline.work_ns) * u128::from(MILLION) / u128::from(left_ns);
            u64::try_from(needed).unwrap_or(u64::MAX).min(MILLION)
        })
    }

    /// Earns `share` millionths of the time since the previous call, up to the maximum credit.
    pub fn earn(&mut self, share: u64, now_ns: u64) {
        let then_ns = self.then_ns.replace(now_ns).unwrap_or(now_ns);
        let passed_ns = now_ns.saturating_sub(then_ns);
        let earned = u128::from(passed_ns) * u128::from(share) / u128::from(MILLION);
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_add(earned);
        self.credit_ns = self.credit_ns.min(saved_max_ns(share));
    }

    pub fn may_spend(&self, share: u64, moment: Moment) -> bool {
        share > 0 && self.credit_ns >= moment.needed_ns(share)
    }

    pub fn spend(&mut self, cost_ns: u64) {
        let cost = i64::try_from(cost_ns).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_sub(cost);
        if let Some(deadline) = &mut self.deadline {
            deadline.work_ns = deadline.work_ns.saturating_sub(cost_ns);
        }
    }

    /// Charges what a request cost beyond its estimate.
    pub fn owe(&mut self, more_ns: u64) {
        let more = i64::try_from(more_ns).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_sub(more);
    }

    /// Charges time of an idle device. It lowers the credit to minus the maximum credit at most: a
    /// task that gets idle time needs no floor, but must get it again soon after idle time ends.
    pub fn had_for_nothing(&mut self, cost_ns: u64, share: u64) {
        let cost = i64::try_from(cost_ns).unwrap_or(i64::MAX);
        let least = self.credit_ns.min(-saved_max_ns(share));
        self.credit_ns = self.credit_ns.saturating_sub(cost).max(least);
        if let Some(deadline) = &mut self.deadline {
            deadline.work_ns = deadline.work_ns.saturating_sub(cost_ns);
        }
    }

    /// Returns when the task may spend, if `moment` does not change. `None`: never.
    pub fn ready_at(&self, share: u64, moment: Moment) -> Option<u64> {
        let missing_ns = moment.needed_ns(share).saturating_sub(self.credit_ns);
        let debt = u128::from(missing_ns.max(0).unsigned_abs());
        let wait = (debt * u128::from(MILLION)).checked_div(u128::from(share))?;
        let wait_ns = u64::try_from(wait).unwrap_or(u64::MAX);
        Some(self.then_ns?.saturating_add(wait_ns).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_gives_its_share_and_saves_little_up() {
        let mut floor = Floor::default();
        let (mut now, mut spent) = (0, 0u64);
        while now < 1_000_000_000 {
            floor.earn(50_000, now);
            if floor.may_spend(50_000, Moment::Gap) {
                floor.spend(1_000_000);
                spent += 1_000_000;
            }
            now = floor
                .ready_at(50_000, Moment::Gap)
                .expect("a share")
                .max(now);
        }
        assert!((50_000_000..=51_000_000).contains(&spent), "{spent} of 1 s");
        floor.owe(5_000_000);
        let ready = floor.ready_at(50_000, Moment::Gap).expect("a share");
        assert!(ready >= now + 99_000_000, "ready at {ready}, it is {now}");
        floor.earn(50_000, now + 1_000_000_000_000);
        assert!(floor.may_spend(50_000, Moment::InUse));
        floor.spend(1);
        assert!(!floor.may_spend(50_000, Moment::InUse));
        floor.spend(25_000_000);
        assert!(!floor.may_spend(50_000, Moment::Gap), "of half a second");
        assert!(!Floor::default().may_spend(0, Moment::Gap));
    }

    #[test]
    fn a_deadline_needs_what_is_left_in_the_time_that_is_left() {
        let mut floor = Floor::default();
        let work_ns = 100;
        let at_ns = 1000;
        floor.set_deadline(Some(Deadline { work_ns, at_ns }));
        assert_eq!(floor.needed(0), 100_000);
        assert_eq!(floor.needed(500), 200_000);
        assert_eq!(floor.needed(2000), MILLION);
        floor.spend(60);
        floor.had_for_nothing(40, 20_000);
        assert_eq!(floor.needed(2000), 0, "it is done");
    }
}
