//! The thread that reads file systems inside served volumes, so that their blocks have classes.
//! `serve` starts it.
//!
//! Invariant: no client waits for it. Without a policy it does nothing. Whatever is inside the
//! volumes, it takes a bounded share of a core and of the reads of the device.

use super::background::Background;
use classes::Classifiers;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Reads of a volume in one step. Blocks of the volume are unknown meanwhile.
const READS: u64 = 8;
/// Pause when everything was read.
const PAUSE: Duration = Duration::from_millis(200);
/// Reads a second, of all volumes together, and time of a core: a hundredth is a percent.
const READS_A_SECOND: f64 = 1000.0;
const TIME_A_SECOND: f64 = 0.25;
/// As much may be taken at once: most file systems are read in one go.
const READS_AT_ONCE: f64 = 8192.0;
const TIME_AT_ONCE: f64 = 2.0;

/// Reads and seconds of a core that may be taken now.
struct Pace {
    reads: f64,
    seconds: f64,
}

impl Pace {
    fn new() -> Self {
        Self {
            reads: READS_AT_ONCE,
            seconds: TIME_AT_ONCE,
        }
    }

    /// Notes a step of so many reads, and the time that passed since the one before, in which it
    /// was busy for a part. Returns how long to pause.
    fn pause(&mut self, reads: u64, busy: Duration, passed: Duration) -> Duration {
        let passed = passed.as_secs_f64();
        let refilled = (self.reads + READS_A_SECOND * passed).min(READS_AT_ONCE);
        self.reads = refilled - reads as f64;
        let refilled = (self.seconds + TIME_A_SECOND * passed).min(TIME_AT_ONCE);
        self.seconds = refilled - busy.as_secs_f64();
        let missing = (-self.reads / READS_A_SECOND).max(-self.seconds / TIME_A_SECOND);
        Duration::try_from_secs_f64(missing.max(0.0)).unwrap_or(PAUSE)
    }
}

/// Starts the thread.
pub fn start(classifiers: &Arc<Classifiers>) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let (classifiers, stop) = (Arc::clone(classifiers), interrupt.clone());
    let work = move || {
        let (mut pace, mut last) = (Pace::new(), Instant::now());
        while !interrupt.requested() {
            let began = Instant::now();
            let stepped = classifiers.step(READS);
            let now = Instant::now();
            let pause = pace.pause(stepped.reads, now - began, now - last);
            last = now;
            let pause = match stepped.has_more {
                true => pause,
                false => pause.max(PAUSE),
            };
            if !pause.is_zero() && interrupt.wait(pause) {
                break;
            }
        }
    };
    Background::start("classes", stop, work, || {})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk whose reading never ends.
    #[test]
    fn endless_reading_takes_its_share_of_reads_and_of_a_core() {
        for (reads, busy) in [(8, Duration::ZERO), (0, Duration::from_millis(20))] {
            let (mut pace, mut pause) = (Pace::new(), Duration::ZERO);
            let (mut all, mut reads_sum, mut busy_sum) = (0.0, 0, 0.0);
            while all < 1000.0 {
                let passed = busy + pause;
                pause = pace.pause(reads, busy, passed);
                all += passed.as_secs_f64() + 1e-6;
                reads_sum += reads;
                busy_sum += busy.as_secs_f64();
            }
            assert!(reads_sum as f64 <= 1000.0 * READS_A_SECOND + READS_AT_ONCE + 10.0);
            assert!(busy_sum <= 1000.0 * TIME_A_SECOND + TIME_AT_ONCE + 1.0);
        }
    }

    #[test]
    fn an_ordinary_disk_is_read_without_a_pause() {
        let mut pace = Pace::new();
        for _ in 0..500 {
            let busy = Duration::from_millis(2);
            assert!(pace.pause(8, busy, busy).is_zero());
        }
    }
}
