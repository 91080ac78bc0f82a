//! Pace of background checkpoints. The destager calls this.
//!
//! A checkpoint reads the journal in another order than it was written and stores the data again.
//! On a hard disk, that keeps the head busy for a minute or more. While clients read, a background
//! checkpoint takes a tenth of the time. It takes all of the time if no client reads, or if writers
//! wait for space in the journal.
//!
//! Invariant: no clock and no I/O: the caller passes the number of client reads and the duration of
//! steps.

use std::time::Duration;

/// Step for writers that wait for space, bytes. Administrative changes of volumes wait for one
/// step.
const STEP_BYTES: u64 = 8 << 20;
/// Step of a background checkpoint, bytes. A client that begins to read waits for one step at most.
const IDLE_STEP_BYTES: u64 = 1 << 20;
/// Step of a background checkpoint while clients read, bytes.
const GENTLE_STEP_BYTES: u64 = 128 << 10;
/// A rest is this many times as long as the step before it, ...
const REST_SHARE: u32 = 9;
/// ... and at most this long.
const REST_MAX: Duration = Duration::from_secs(2);

/// Pace of a checkpoint. See the module's head.
#[derive(Debug)]
pub(super) struct Pace {
    is_background: bool,
    /// Number of client reads at the last step.
    reads: u64,
    is_gentle: bool,
}

impl Pace {
    /// `is_background` is true for a background checkpoint. `reads` is a recent number of client
    /// reads.
    pub fn new(is_background: bool, reads: u64) -> Self {
        Self {
            is_background,
            reads,
            is_gentle: false,
        }
    }

    /// Returns true if this is still a background checkpoint.
    pub fn is_background(&self) -> bool {
        self.is_background
    }

    /// Notes that writers wait for this checkpoint from now on.
    pub fn hurry(&mut self) {
        self.is_background = false;
    }

    /// Returns the size of the next step, bytes. `reads` is the present number of client reads.
    pub fn step_bytes(&mut self, reads: u64) -> u64 {
        let have_read = std::mem::replace(&mut self.reads, reads) != reads;
        self.is_gentle = self.is_background && have_read;
        match (self.is_gentle, self.is_background) {
            (true, _) => GENTLE_STEP_BYTES,
            (false, true) => IDLE_STEP_BYTES,
            (false, false) => STEP_BYTES,
        }
    }

    /// Returns how long to leave the device alone after a step of this duration.
    pub fn rest(&self, took: Duration) -> Duration {
        match self.is_gentle {
            true => took.saturating_mul(REST_SHARE).min(REST_MAX),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Processes one megabyte of records that take 5 ms each, beside this many reads per second,
    /// and returns the share of time in steps.
    fn busy_percent(mut pace: Pace, reads_per_s: u32) -> u128 {
        let (mut now, mut busy, mut done) = (Duration::ZERO, Duration::ZERO, 0);
        while done < 8 << 20 {
            let reads = now.as_millis() * u128::from(reads_per_s) / 1000;
            let bytes = pace.step_bytes(1 + u64::try_from(reads).expect("few"));
            let took = 5 * MS * u32::try_from(bytes >> 14).expect("few");
            busy += took;
            done += bytes;
            now += took + pace.rest(took);
        }
        busy.as_millis() * 100 / now.as_millis()
    }

    #[test]
    fn clients_that_read_have_nearly_all_of_the_device() {
        assert_eq!(busy_percent(Pace::new(true, 0), 30), 10);
        assert_eq!(busy_percent(Pace::new(true, 1), 0), 100, "nobody reads");
        assert_eq!(busy_percent(Pace::new(false, 0), 30), 100, "writers wait");
        let mut hurried = Pace::new(true, 0);
        hurried.hurry();
        assert!(!hurried.is_background());
        assert_eq!(busy_percent(hurried, 30), 100);
    }

    #[test]
    fn rests_and_steps_are_bounded() {
        let mut pace = Pace::new(true, 0);
        assert_eq!(pace.step_bytes(1), GENTLE_STEP_BYTES);
        assert_eq!(pace.rest(Duration::from_secs(60)), REST_MAX);
        assert_eq!(pace.step_bytes(1), IDLE_STEP_BYTES, "nobody read meanwhile");
        assert_eq!(pace.rest(Duration::from_secs(60)), Duration::ZERO);
    }
}
