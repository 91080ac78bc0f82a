//! The write budget: a token bucket (DDFS: three capacities a day). `step` calls this; time is an
//! argument.
//!
//! Invariant: within any 24 hours at most the daily budget is written, whatever the clock does in
//! between: a clock that jumps gives no more than a full bucket, one that goes back gives nothing.

use units::UnixNanos;

const DAY_NS: u128 = 24 * 3600 * 1_000_000_000;
/// The bucket holds this part of a daily budget; the rest flows in during the day.
const DEPTH_OF_DAY: u64 = 24;

/// Bytes that may be written now, and how they come back.
pub(crate) struct WriteBudget {
    daily_bytes: u64,
    depth_bytes: u64,
    tokens: u64,
    /// Time up to which tokens were added.
    since: Option<UnixNanos>,
}

impl WriteBudget {
    /// Makes an empty bucket. `least_bytes` is the longest single write.
    pub fn new(daily_bytes: u64, least_bytes: u64) -> Self {
        Self {
            daily_bytes,
            depth_bytes: (daily_bytes / DEPTH_OF_DAY).max(least_bytes),
            tokens: 0,
            since: None,
        }
    }

    /// Fills the bucket: the tier is empty, so nothing was written of late.
    pub fn fill(&mut self) {
        self.tokens = self.depth_bytes;
    }

    /// Adds what has come since the last call.
    pub fn refill(&mut self, now: UnixNanos) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        let rate = u128::from(self.daily_bytes.saturating_sub(self.depth_bytes));
        let elapsed = u128::try_from(i128::from(now.0) - i128::from(since.0)).unwrap_or(0);
        let gained = rate * elapsed.min(DAY_NS) / DAY_NS;
        // A step that gains nothing must not lose its time, unless the clock went back.
        if gained > 0 || now < since || rate == 0 {
            self.since = Some(now);
        }
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        self.tokens = self.tokens.saturating_add(gained).min(self.depth_bytes);
    }

    /// Returns true if that much may be written now.
    pub fn allows(&self, bytes: u64) -> bool {
        self.tokens >= bytes
    }

    /// Takes tokens for bytes that are being written.
    pub fn take(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;

    #[test]
    fn a_day_gives_its_budget_and_no_more() {
        let mut budget = WriteBudget::new(3 << 30, 4 << 20);
        budget.fill();
        let mut written = 0u64;
        for minute in 0..24 * 60 {
            budget.refill(UnixNanos(minute * MINUTE_NS));
            while budget.allows(4 << 20) {
                budget.take(4 << 20);
                written += 4 << 20;
            }
        }
        assert!(written <= 3 << 30, "{written}");
        assert!(written > (3 << 30) * 99 / 100, "{written}");
    }

    #[test]
    fn clocks_that_jump_give_at_most_a_full_bucket() {
        let mut budget = WriteBudget::new(24 << 20, 1 << 20);
        budget.refill(UnixNanos(0));
        assert!(!budget.allows(1), "it begins empty");
        budget.refill(UnixNanos(i64::MAX));
        assert!(budget.allows(1 << 20) && !budget.allows((1 << 20) + 1));
        budget.take(1 << 20);
        budget.refill(UnixNanos(i64::MIN));
        assert!(!budget.allows(1));
        budget.refill(UnixNanos(i64::MIN + 60 * MINUTE_NS));
        assert!(budget.allows(1 << 19));
    }

    /// Steps may be so close that each alone gains less than a byte.
    #[test]
    fn short_steps_gain_as_much_as_long_ones() {
        let mut budget = WriteBudget::new(1 << 20, 4096);
        (0..100_000).for_each(|n| budget.refill(UnixNanos(n * 6_000_000)));
        assert!(budget.allows(4096), "{}", budget.tokens);
    }
}
