//! Records failures of the device and decides when to try again. `tier` reports them, `step` acts
//! on them; time is an argument.
//!
//! Invariant: no failure reaches a caller. After a few in a row the tier is off; it comes back by
//! itself, later each time. An operator gets at most one line a minute.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use units::UnixNanos;

/// Failed reads in a row after which the tier is off. Each may take long.
const FAILURES_MAX: u32 = 3;
/// First and longest time until the next attempt.
const DELAY_NS_MIN: i64 = 30_000_000_000;
const DELAY_NS_MAX: i64 = 30 * 60_000_000_000;
/// Least time between two notices.
const NOTICE_NS: i64 = 60_000_000_000;

/// Waits longer after each failure.
#[derive(Default)]
struct Backoff {
    reason: Option<String>,
    /// Start of the wait, once a step has seen the failure.
    since: Option<UnixNanos>,
    delay_ns: i64,
}

impl Backoff {
    fn begin(&mut self, why: &str) {
        self.reason = Some(why.to_owned());
        self.since = None;
        self.delay_ns = (self.delay_ns * 2).clamp(DELAY_NS_MIN, DELAY_NS_MAX);
    }

    /// Returns true when nothing is wrong or the wait is over. A clock that went back ends it too.
    fn is_over(&mut self, now: UnixNanos) -> bool {
        if self.reason.is_none() {
            return true;
        }
        let since = *self.since.get_or_insert(now);
        let waited = now.0.checked_sub(since.0);
        waited.is_none_or(|waited| waited < 0 || waited >= self.delay_ns)
    }

    fn end(&mut self) {
        self.reason = None;
    }

    fn forgive(&mut self) {
        self.delay_ns = 0;
    }
}

#[derive(Default)]
struct FailureState {
    device: Backoff,
    writes: Backoff,
    notice: Option<String>,
    noticed: Option<UnixNanos>,
    /// End of the last trouble.
    up_since: Option<UnixNanos>,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Health {
    is_up: AtomicBool,
    failures: AtomicU32,
    failures_state: Mutex<FailureState>,
}

impl Health {
    /// Returns true if the device is in use.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// A read succeeded.
    pub fn worked(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// A read failed. After a few in a row the tier is off.
    pub fn read_failed(&self, why: &str) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_MAX {
            self.shut_down(why);
        }
    }

    /// Nothing can be read.
    pub fn shut_down(&self, why: &str) {
        let mut failures_state = self.failures_state.lock();
        self.is_up.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        failures_state.up_since = None;
        if failures_state.device.reason.is_none() {
            failures_state.device.begin(why);
            failures_state.notice = Some(format!("the fast tier is off: {why}"));
        }
    }

    /// Nothing can be written for a while.
    pub fn write_failed(&self, why: &str) {
        let mut failures_state = self.failures_state.lock();
        failures_state.writes.begin(why);
        failures_state.notice = Some(format!("the fast tier is not written for now: {why}"));
    }

    /// Returns true if opening the device may be tried now.
    pub fn may_open(&self, now: UnixNanos) -> bool {
        let mut failures_state = self.failures_state.lock();
        let is_over = failures_state.device.is_over(now);
        if is_over {
            // The next failure is another one.
            failures_state.device.end();
        }
        is_over
    }

    /// The device is open.
    pub fn opened(&self, now: UnixNanos) {
        let mut failures_state = self.failures_state.lock();
        self.is_up.store(true, Ordering::Relaxed);
        failures_state.up_since = Some(now);
        if failures_state.device.delay_ns > 0 {
            failures_state.notice = Some("the fast tier is in use again".to_owned());
        }
    }

    /// Returns true if writing may be tried now. A long time without trouble is rewarded.
    pub fn may_write(&self, now: UnixNanos) -> bool {
        let mut failures_state = self.failures_state.lock();
        let is_over = failures_state.writes.is_over(now);
        if is_over {
            failures_state.writes.end();
        }
        let up = failures_state
            .up_since
            .and_then(|since| now.0.checked_sub(since.0));
        if is_over && up.is_some_and(|up| up > DELAY_NS_MAX) {
            failures_state.device.forgive();
        }
        is_over
    }

    /// A write succeeded.
    pub fn wrote(&self) {
        self.failures_state.lock().writes.forgive();
    }

    /// Returns why the tier is off, or not written.
    pub fn reason(&self) -> Option<String> {
        let failures_state = self.failures_state.lock();
        let device = failures_state.device.reason.clone();
        device.or_else(|| failures_state.writes.reason.clone())
    }

    /// Takes what an operator should read now, if there is anything.
    pub fn take_notice(&self, now: UnixNanos) -> Option<String> {
        let mut failures_state = self.failures_state.lock();
        let since = failures_state
            .noticed
            .and_then(|last| now.0.checked_sub(last.0));
        if since.is_some_and(|since| (0..NOTICE_NS).contains(&since)) {
            return None;
        }
        let notice = failures_state.notice.take()?;
        failures_state.noticed = Some(now);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixNanos {
        UnixNanos(seconds * 1_000_000_000)
    }

    #[test]
    fn single_failures_pass_and_three_in_a_row_do_not() {
        let health = Health::default();
        assert!(health.may_open(at(0)));
        health.opened(at(0));
        for _ in 0..9 {
            health.read_failed("EIO");
            health.read_failed("EIO");
            health.worked();
        }
        assert!(health.is_up() && health.take_notice(at(0)).is_none());
        (0..3).for_each(|_| health.read_failed("EIO"));
        assert!(!health.is_up());
        assert_eq!(health.reason().as_deref(), Some("EIO"));
    }

    #[test]
    fn each_wait_is_longer_up_to_a_limit() {
        let health = Health::default();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..9 {
            health.shut_down("gone");
            let start = now;
            while !health.may_open(at(now)) {
                now += 10;
            }
            waits.push(now - start);
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]);
        health.opened(at(now));
        assert!(health.may_write(at(now + 1801)));
        health.shut_down("gone");
        assert!(!health.may_open(at(now + 2000)) && health.may_open(at(now + 2030)));
        health.shut_down("gone");
        assert!(!health.may_open(at(now + 2040)));
        assert!(health.may_open(at(now)), "the clock went back");
    }

    #[test]
    fn notices_are_rare_and_the_last_one_counts() {
        let health = Health::default();
        health.shut_down("first");
        let notice = health.take_notice(at(0));
        assert_eq!(notice.as_deref(), Some("the fast tier is off: first"));
        assert!(health.may_open(at(0)) || health.may_open(at(40)));
        health.opened(at(40));
        assert_eq!(health.take_notice(at(40)), None);
        health.write_failed("full");
        assert_eq!(health.take_notice(at(59)), None);
        let notice = health.take_notice(at(60));
        let expected = "the fast tier is not written for now: full";
        assert_eq!(notice.as_deref(), Some(expected));
        assert_eq!(health.take_notice(at(1000)), None);
    }
}
