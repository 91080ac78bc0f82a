//! Rate limits and time estimates. The driver passes the time.
//!
//! Invariant: over any period, the spent bytes do not exceed the rate times the period plus one
//! step's bytes.

/// Half-life of the measured pace, seconds.
const HALF_LIFE_S: f64 = 30.0;
const NS: f64 = 1e9;

/// A rate limit, and the measured pace. The program's own limits use it too. Times are nanoseconds
/// since any fixed moment.
pub struct Pace {
    bytes_per_s: Option<u64>,
    /// Negative while bytes were spent ahead of the rate.
    credit_bytes: f64,
    /// Pages and seconds; older ones weigh less.
    pages: f64,
    seconds: f64,
    now_ns: Option<u64>,
}

impl Pace {
    /// `bytes_per_s`: the limit, if there is one; 0 is none.
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        Self {
            bytes_per_s: bytes_per_s.filter(|rate| *rate > 0),
            credit_bytes: 0.0,
            pages: 0.0,
            seconds: 0.0,
            now_ns: None,
        }
    }

    /// Changes the limit; 0 is none.
    pub fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.bytes_per_s = bytes_per_s.filter(|rate| *rate > 0);
        self.credit_bytes = 0.0;
    }

    /// Excludes the time until the next step.
    pub fn stop(&mut self) {
        self.now_ns = None;
    }

    /// Advances the time to `now_ns`. Returns `None` if bytes may be spent, else the time when they
    /// may.
    pub fn waits_until(&mut self, now_ns: u64) -> Option<u64> {
        let before = self.now_ns.replace(now_ns).unwrap_or(now_ns);
        let seconds = now_ns.saturating_sub(before) as f64 / NS;
        let fading = 0.5f64.powf(seconds / HALF_LIFE_S);
        self.pages *= fading;
        self.seconds = self.seconds * fading + seconds;
        let rate = self.bytes_per_s? as f64;
        // Unused bytes are not saved up.
        self.credit_bytes = (self.credit_bytes + seconds * rate).min(0.0);
        (self.credit_bytes < 0.0).then(|| {
            let wait_ns = (-self.credit_bytes / rate * NS).ceil();
            now_ns.saturating_add(wait_ns as u64)
        })
    }

    /// Counts bytes that were read or written.
    pub fn spend(&mut self, bytes: u64) {
        if self.bytes_per_s.is_some() {
            self.credit_bytes -= bytes as f64;
        }
    }

    /// Counts completed pages, for the estimate.
    pub fn done(&mut self, pages: u64) {
        self.pages += pages as f64;
    }

    /// Returns the seconds that `pages` take at this pace; `None` while the pace is unknown.
    pub fn estimate_s(&self, pages: u64) -> Option<f64> {
        let known = self.pages > 0.0 && self.seconds > 0.0;
        known.then(|| pages as f64 * self.seconds / self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_0_is_none() {
        let mut pace = Pace::new(Some(0));
        for now in 0..3 {
            assert_eq!(pace.waits_until(now), None);
            pace.spend(1 << 40);
        }
        pace.limit(Some(1));
        pace.spend(1);
        assert!(pace.waits_until(4).is_some());
        pace.limit(Some(0));
        pace.spend(1);
        assert_eq!(pace.waits_until(5), None);
    }

    #[test]
    fn the_rate_is_kept_and_idle_time_is_not_saved_up() {
        let mut pace = Pace::new(Some(1000));
        let (mut now, mut spent) = (5_000_000_000, 0);
        while now < 15_000_000_000 {
            match pace.waits_until(now) {
                Some(until) => now = until,
                None => {
                    pace.spend(300);
                    spent += 300;
                }
            }
        }
        assert!((9_900..=10_300).contains(&spent), "{spent} bytes in 10 s");
        now += 1_000_000_000_000;
        let mut burst = 0;
        while pace.waits_until(now).is_none() {
            pace.spend(300);
            burst += 300;
        }
        assert_eq!(burst, 300);
        pace.limit(None);
        assert_eq!(pace.waits_until(now), None);
    }

    #[test]
    fn the_estimate_follows_the_pace_and_leaves_pauses_out() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.estimate_s(10), None);
        let mut now = 0;
        for _ in 0..100 {
            pace.waits_until(now);
            pace.done(50);
            now += 1_000_000_000;
        }
        pace.stop();
        now += 3_600_000_000_000;
        pace.waits_until(now);
        let estimate = pace.estimate_s(5000).expect("a pace");
        assert!((95.0..105.0).contains(&estimate), "{estimate} s");
    }
}
