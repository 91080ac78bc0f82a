//! `--background` of `backup` and `host scrub`: reads the source while its disk is idle. The lanes
//! of a backup ask, and the scrub.
//!
//! Invariant: one range is read at a time.

use crate::commands::invocation::Invocation;
use archive::backup::Pacer;
use linux_host::IdleDisk;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use terminal::interrupt::Interrupt;

/// See the module's head.
pub(in crate::commands) struct Background {
    interrupt: Interrupt,
    gates: Mutex<Gates>,
}

#[derive(Default)]
struct Gates {
    /// By the device number of the source; `None` for one that cannot be watched.
    by_device: BTreeMap<u64, Option<IdleDisk>>,
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
    fn run(&self, device: u64, read: &mut dyn FnMut() -> ControlFlow<u64, u64>) {
        let Gates { by_device, waited } = &mut *self.gates.lock();
        let watched = by_device
            .entry(device)
            .or_insert_with(|| IdleDisk::of_device(device));
        loop {
            if let Some(disk) = watched {
                *waited += disk.wait(|time| self.interrupt.wait(time));
            }
            let read = read();
            let (ControlFlow::Continue(bytes) | ControlFlow::Break(bytes)) = read;
            if let Some(disk) = watched {
                disk.passed(bytes);
            }
            if read.is_break() {
                return;
            }
        }
    }
}
