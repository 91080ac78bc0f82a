//! When a scrub may read: the scheduler of `qos`, told of what the pool's users do.
//!
//! Invariant: it waits for nothing and looks at counters only, so it sees users late by one step or one
//! wait. A user that was there since the last look counts as there now. Called by the scrub's thread.

use qos::{Direction, Flow, InvalidShares, QueueFull, Request, Scheduler, Settings};
use std::time::Duration;

/// Longest wait: users are looked for that often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Counters of any meaning that move when somebody uses the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity(pub [u64; 5]);

/// See the module's head.
pub struct Pacing {
    scheduler: Scheduler,
    seen: Activity,
    is_offered: bool,
}

impl Pacing {
    /// Nobody was seen yet.
    pub fn new(settings: Settings) -> Result<Self, InvalidShares> {
        Ok(Self {
            scheduler: Scheduler::new(settings)?,
            seen: Activity::default(),
            is_offered: false,
        })
    }

    /// For a disk.
    pub fn for_disk() -> Result<Self, InvalidShares> {
        Self::new(Settings::DISK)
    }

    /// Whether so many bytes may be read now; else how long to wait before asking again.
    pub fn may_read(&mut self, bytes: u64, now: Activity, now_ns: u64) -> Result<(), Duration> {
        if std::mem::replace(&mut self.seen, now) != now {
            // A full queue is as good a sign of users.
            let _ = self.offer(Flow::ForegroundSequential, 0, now_ns);
        }
        if !self.is_offered {
            self.is_offered = self.offer(Flow::Scrub, bytes, now_ns).is_ok();
        }
        let mut is_granted = false;
        while let Some(next) = self.scheduler.next(now_ns) {
            if next.flow == Flow::Scrub {
                self.is_offered = false;
                is_granted = true;
            } else {
                self.scheduler.completed(next.flow, now_ns);
            }
        }
        if is_granted {
            return Ok(());
        }
        let wakes_at = self.scheduler.wakes_at(now_ns);
        let wait_ns = wakes_at.map_or(u64::MAX, |at| at.saturating_sub(now_ns));
        Err(Duration::from_nanos(wait_ns.max(1_000_000)).min(LOOK_EVERY))
    }

    /// What was allowed has been read.
    pub fn has_read(&mut self, now_ns: u64) {
        self.scheduler.completed(Flow::Scrub, now_ns);
    }

    fn offer(&mut self, flow: Flow, bytes: u64, now_ns: u64) -> Result<(), QueueFull> {
        let request = Request {
            id: 0,
            flow,
            direction: Direction::Read,
            is_sequential: true,
            bytes,
        };
        self.scheduler.offer(request, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// MiB that are read in ten seconds, each in 5 ms, while a user is seen every so many ms.
    fn read_in_ten_seconds(user_every_ms: Option<u64>) -> u64 {
        let mut pacing = Pacing::for_disk().unwrap();
        let (mut now_ms, mut read) = (0, 0);
        while now_ms < 10_000 {
            let seen = user_every_ms.map_or(0, |every| now_ms / every);
            let activity = Activity([seen, 0, 0, 0, 0]);
            match pacing.may_read(MIB, activity, now_ms * 1_000_000) {
                Ok(()) => {
                    read += 1;
                    now_ms += 5;
                    pacing.has_read(now_ms * 1_000_000);
                }
                Err(wait) => now_ms += (wait.as_millis() as u64).max(1),
            }
        }
        read
    }

    #[test]
    fn the_device_is_the_scrubs_while_nobody_is_there() {
        assert!(read_in_ten_seconds(None) > 1_900);
    }

    #[test]
    fn users_leave_it_a_floor_and_their_pauses() {
        let busy = read_in_ten_seconds(Some(1));
        assert!((10..100).contains(&busy), "{busy} MiB beside a busy user");
        let half = read_in_ten_seconds(Some(200));
        assert!(
            (1_000..1_950).contains(&half),
            "{half} MiB beside a calm one"
        );
    }
}
