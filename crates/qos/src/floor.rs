//! Time that maintenance has whatever happens.
//!
//! What is earned is spent when no user has the device, who would wait for it; after a while whatever happens.
//!
//! Invariant: over any time, a floor gives its share of that time, what it earns while it looks for a gap,
//! and one request at most. Called by the scheduler.

/// What is left to do, and by when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// Time of the device that is still needed, nanoseconds.
    pub work_ns: u64,
    /// When it should be done.
    pub at_ns: u64,
}

const MILLION: u64 = 1_000_000;
/// Whoever may spend looks for a gap between users' requests so long.
const PATIENCE_NS: u64 = 500_000_000;

/// Whether a user's request waits or is at the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// None is.
    Gap,
    /// One is.
    InUse,
}

impl Moment {
    /// What must have been earned to spend now: in the end one spends in the way of users.
    fn needed_ns(self, share: u64) -> i64 {
        match self {
            Self::Gap => 0,
            Self::InUse => saved_max_ns(share),
        }
    }
}

/// What is not spent is saved up to this: what is earned while one looks for a gap.
fn saved_max_ns(share: u64) -> i64 {
    i64::try_from(PATIENCE_NS / MILLION * share).unwrap_or(i64::MAX)
}

/// What has been earned and not spent, for one task.
#[derive(Clone, Copy, Default)]
pub(crate) struct Floor {
    /// Below zero: it has had more than its share.
    credit_ns: i64,
    then_ns: Option<u64>,
    deadline: Option<Deadline>,
}

impl Floor {
    pub fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
    }

    /// The share, in millionths: the set one, or what the deadline needs.
    pub fn share(&self, set_permille: u16, now_ns: u64) -> u64 {
        let set = u64::from(set_permille) * (MILLION / 1000);
        let needed = self.deadline.map_or(0, |deadline| {
            let left_ns = deadline.at_ns.saturating_sub(now_ns).max(1);
            let needed = u128::from(deadline.work_ns) * u128::from(MILLION) / u128::from(left_ns);
            u64::try_from(needed).unwrap_or(u64::MAX).min(MILLION)
        });
        set.max(needed)
    }

    /// It is `now_ns`: earns `share` millionths of the time since it was last asked. What is not
    /// spent is saved up for a short while only.
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

    /// What was spent has cost more than was thought.
    pub fn owe(&mut self, more_ns: u64) {
        let more = i64::try_from(more_ns).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_sub(more);
    }

    /// What was had in idle time counts for the floor of about now: that is for who gets nothing otherwise.
    pub fn had_for_nothing(&mut self, cost_ns: u64, share: u64) {
        let cost = i64::try_from(cost_ns).unwrap_or(i64::MAX);
        let least = self.credit_ns.min(-saved_max_ns(share));
        self.credit_ns = self.credit_ns.saturating_sub(cost).max(least);
        if let Some(deadline) = &mut self.deadline {
            deadline.work_ns = deadline.work_ns.saturating_sub(cost_ns);
        }
    }

    /// When it may spend again, if the moment stays what it is.
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
    fn a_deadline_makes_it_rise() {
        let mut floor = Floor::default();
        let work_ns = 100;
        let at_ns = 1000;
        floor.set_deadline(Some(Deadline { work_ns, at_ns }));
        assert_eq!(floor.share(20, 0), 100_000);
        assert_eq!(floor.share(200, 0), 200_000);
        assert_eq!(floor.share(20, 500), 200_000);
        assert_eq!(floor.share(20, 2000), MILLION);
        floor.spend(60);
        floor.had_for_nothing(40, 20_000);
        assert_eq!(floor.share(20, 2000), 20_000, "it is done");
    }
}
