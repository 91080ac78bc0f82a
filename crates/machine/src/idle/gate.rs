//! When work on a disk may begin: while others have no requests there. `idle` exports it.
//!
//! Invariant: a busy disk delays work, and never stops it: after each maximum wait it may do
//! [`UNGATED_BYTES`].

use super::{Activity, Requests};
use std::time::Duration;

/// A disk is idle if it completes nothing for so long.
const QUIET: Duration = Duration::from_millis(20);
/// Maximum wait for an idle disk.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of work on a busy disk after each maximum wait.
const UNGATED_BYTES: u64 = 4 << 20;
/// Less work counts as so many bytes: it costs a seek.
const WORK_BYTES_MIN: u64 = 64 << 10;

/// A disk that is left to others while they use it.
#[derive(Debug)]
pub struct IdleDisk {
    activity: Activity,
    gate: Gate,
}

impl IdleDisk {
    /// Finds the disk below files with this device number. `None`: see [`Activity::of_device`].
    pub fn of_device(device: u64) -> Option<Self> {
        Some(Self {
            activity: Activity::of_device(device)?,
            gate: Gate::default(),
        })
    }

    /// Returns when the disk is idle, after a second, or when `pause` returns true, which waits so
    /// long or until the user stops the work. Returns the sum of the pauses.
    pub fn wait(&mut self, mut pause: impl FnMut(Duration) -> bool) -> Duration {
        let (activity, mut waited) = (&self.activity, Duration::ZERO);
        self.gate.wait(
            || now(activity),
            |time| {
                waited += time;
                pause(time) || waited >= WAIT_MAX
            },
        );
        waited
    }

    /// Work of so many bytes has ended.
    pub fn passed(&mut self, bytes: u64) {
        self.gate.passed(bytes, now(&self.activity));
    }
}

/// Counters that cannot be read delay nothing.
fn now(activity: &Activity) -> Requests {
    activity.now().unwrap_or(Requests {
        completed: 0,
        in_flight: 0,
    })
}

/// When work on one disk may begin.
#[derive(Debug, Default)]
struct Gate {
    /// Requests that the disk had completed after the last work; `None` before the first.
    after_own: Option<u64>,
    /// Bytes of work that may be done although the disk is busy.
    ungated_bytes: u64,
}

impl Gate {
    /// Returns when the disk is idle, or when `pause`, which waits, returns true.
    fn wait(&mut self, now: impl Fn() -> Requests, mut pause: impl FnMut(Duration) -> bool) {
        let mut seen = now();
        let is_untouched = self.after_own == Some(seen.completed) && seen.in_flight == 0;
        if is_untouched || self.ungated_bytes > 0 {
            return;
        }
        loop {
            if pause(QUIET) {
                self.ungated_bytes = UNGATED_BYTES;
                return;
            }
            let later = now();
            if later == seen && later.in_flight == 0 {
                return;
            }
            seen = later;
        }
    }

    /// Work of so many bytes has ended.
    fn passed(&mut self, bytes: u64, now: Requests) {
        let bytes = bytes.max(WORK_BYTES_MIN);
        self.ungated_bytes = self.ungated_bytes.saturating_sub(bytes);
        self.after_own = Some(now.completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A disk on which others complete a request in each of the next pauses.
    struct Disk {
        completed: Cell<u64>,
        busy_pauses: Cell<u32>,
        pauses: Cell<u32>,
    }

    impl Disk {
        fn new(busy_pauses: u32) -> Self {
            Self {
                completed: Cell::new(7),
                busy_pauses: Cell::new(busy_pauses),
                pauses: Cell::new(0),
            }
        }

        fn now(&self) -> Requests {
            Requests {
                completed: self.completed.get(),
                in_flight: 0,
            }
        }

        /// Passes through the gate, and reads. Returns the number of pauses before.
        fn read(&self, gate: &mut Gate, bytes: u64) -> u32 {
            self.pauses.set(0);
            gate.wait(
                || self.now(),
                |_| {
                    self.pauses.set(self.pauses.get() + 1);
                    if self.busy_pauses.get() > 0 {
                        self.busy_pauses.set(self.busy_pauses.get() - 1);
                        self.completed.set(self.completed.get() + 1);
                    }
                    self.pauses.get() == 50
                },
            );
            self.completed.set(self.completed.get() + 3);
            gate.passed(bytes, self.now());
            self.pauses.get()
        }
    }

    #[test]
    fn an_idle_disk_is_asked_once() {
        let (disk, mut gate) = (Disk::new(0), Gate::default());
        assert_eq!(disk.read(&mut gate, 100), 1);
        assert_eq!(disk.read(&mut gate, 100), 0);
        // Another process has used it.
        disk.completed.set(100);
        assert_eq!(disk.read(&mut gate, 100), 1);
    }

    #[test]
    fn a_busy_disk_is_waited_for() {
        let (disk, mut gate) = (Disk::new(5), Gate::default());
        assert_eq!(disk.read(&mut gate, 100), 6);
        assert_eq!(disk.read(&mut gate, 100), 0);
    }

    #[test]
    fn a_disk_that_is_never_idle_is_read_slowly() {
        let (disk, mut gate) = (Disk::new(u32::MAX), Gate::default());
        assert_eq!(disk.read(&mut gate, 1), 50);
        let reads = (0..1000).take_while(|_| {
            disk.completed.set(disk.completed.get() + 1);
            disk.read(&mut gate, 1) == 0
        });
        assert_eq!(reads.count() as u64, UNGATED_BYTES / WORK_BYTES_MIN - 1);
    }
}
