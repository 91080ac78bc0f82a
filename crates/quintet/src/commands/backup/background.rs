//! `--background` of `backup` and `host scrub`: reads the source while its disk is idle. The lanes
//! of a backup ask, and the scrub.
//!
//! Invariant: one read at a time. A busy disk delays a backup, and never stops it: each second it
//! may read [`UNGATED_BYTES`].

use crate::commands::invocation::Invocation;
use archive::backup::Pacer;
use linux_host::{Activity, Requests};
use parking_lot::Mutex;
use server::interrupt::Interrupt;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A disk is idle if it completes nothing for so long.
const QUIET: Duration = Duration::from_millis(20);
/// Maximum wait for an idle disk.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes that are read from a busy disk after each maximum wait.
const UNGATED_BYTES: u64 = 4 << 20;
/// A small read counts as so many bytes: it costs a seek.
const READ_BYTES_MIN: u64 = 64 << 10;

/// See the module's head.
pub(in crate::commands) struct Background {
    interrupt: Interrupt,
    gates: Mutex<Gates>,
}

#[derive(Default)]
struct Gates {
    /// By the device number of the source; `None` for one that cannot be watched.
    by_device: BTreeMap<u64, Option<(Activity, Gate)>>,
    waited: Duration,
}

impl Background {
    pub fn new(invocation: &Invocation) -> Self {
        Self {
            interrupt: invocation.interrupt.clone(),
            gates: Mutex::default(),
        }
    }

    /// Returns how long reads have waited for idle disks.
    pub fn waited(&self) -> Duration {
        self.gates.lock().waited
    }
}

impl Pacer for Background {
    fn run(&self, device: u64, read: &mut dyn FnMut() -> u64) {
        let Gates { by_device, waited } = &mut *self.gates.lock();
        let watched = by_device
            .entry(device)
            .or_insert_with(|| Some((Activity::of_device(device)?, Gate::default())));
        let Some((activity, gate)) = watched else {
            read();
            return;
        };
        // Counters that cannot be read delay nothing.
        let idle = Requests {
            completed: 0,
            in_flight: 0,
        };
        let now = || activity.now().unwrap_or(idle);
        let begun = Instant::now();
        gate.wait(now, |time| {
            self.interrupt.wait(time) || begun.elapsed() >= WAIT_MAX
        });
        *waited += begun.elapsed();
        gate.passed(read(), now());
    }
}

/// When reads of one disk may begin.
#[derive(Default)]
struct Gate {
    /// Requests that the disk had completed after the last read; `None` before the first.
    after_own: Option<u64>,
    /// Bytes that may be read although the disk is busy.
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

    /// A read of so many bytes has ended.
    fn passed(&mut self, bytes: u64, now: Requests) {
        let bytes = bytes.max(READ_BYTES_MIN);
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
        assert_eq!(reads.count() as u64, UNGATED_BYTES / READ_BYTES_MIN - 1);
    }
}
