//! How fast a checkpoint goes that nobody waits for.
//!
//! It reads what was written back from the journal, record by record and in another order, and stores it: on a disk
//! with arms it would keep the head busy for a minute or more. While clients read, it has a tenth of the time; where nobody
//! does, and where writers wait for room in the journal, all of it.
//!
//! Invariant: no clock, no I/O: the caller says what clients have asked and how long a step took. Called
//! by the destager.

use std::time::Duration;

/// Of a step for writers who wait for room, bytes: others that change volumes wait so long.
const STEP_BYTES: u64 = 8 << 20;
/// Of one for nobody: who begins to read waits so long at most.
const IDLE_STEP_BYTES: u64 = 1 << 20;
/// Of one beside clients who read.
const GENTLE_STEP_BYTES: u64 = 128 << 10;
/// Rests are so many times as long as the steps before them, ...
const REST_SHARE: u32 = 9;
/// ... and not longer than this.
const REST_MAX: Duration = Duration::from_secs(2);

/// See the module's head.
#[derive(Debug)]
pub(super) struct Pace {
    nobody_waits: bool,
    /// That clients had asked for when it was looked at last.
    reads: u64,
    is_gentle: bool,
}

impl Pace {
    /// For a checkpoint that somebody waits for, or not; clients had asked for so many reads some time ago.
    pub fn new(nobody_waits: bool, reads: u64) -> Self {
        Self {
            nobody_waits,
            reads,
            is_gentle: false,
        }
    }

    /// Whether nobody waits for it, still.
    pub fn nobody_waits(&self) -> bool {
        self.nobody_waits
    }

    /// From now on somebody does.
    pub fn hurry(&mut self) {
        self.nobody_waits = false;
    }

    /// Bytes of the next step. By now clients have asked for so many reads.
    pub fn step_bytes(&mut self, reads: u64) -> u64 {
        let have_read = std::mem::replace(&mut self.reads, reads) != reads;
        self.is_gentle = self.nobody_waits && have_read;
        match (self.is_gentle, self.nobody_waits) {
            (true, _) => GENTLE_STEP_BYTES,
            (false, true) => IDLE_STEP_BYTES,
            (false, false) => STEP_BYTES,
        }
    }

    /// How long to leave the device alone after a step that took so long.
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

    /// A megabyte of records that take 5 ms each, while somebody reads 30 times a second, or not.
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
    fn clients_who_read_have_nearly_all_of_the_device() {
        assert_eq!(busy_percent(Pace::new(true, 0), 30), 10);
        assert_eq!(busy_percent(Pace::new(true, 1), 0), 100, "nobody reads");
        assert_eq!(busy_percent(Pace::new(false, 0), 30), 100, "writers wait");
        let mut hurried = Pace::new(true, 0);
        hurried.hurry();
        assert!(!hurried.nobody_waits());
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
