//! `--background` of `backup` and `host scrub`: reads the source while its disk is idle, and with
//! idle I/O priority. The lanes of a backup ask, and the scrub.
//!
//! Invariant: one range is read at a time.

use archive::backup::Pacer;
use machine::{IdleDisk, IdlePriority};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use terminal::interrupt::Interrupt;
use terminal::shell::Shell;

/// See the module's head.
pub struct Background {
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
    /// Makes one for a run of this command.
    pub fn new(shell: &Shell) -> Self {
        Self {
            interrupt: shell.interrupt.clone(),
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

/// Returns a guard: this thread, and those that it starts, use the disk when no other does. `what`
/// names the work.
pub fn idle_priority(shell: &Shell, what: &str) -> Option<IdlePriority> {
    let began = IdlePriority::begin();
    if let Err(e) = &began {
        let why = units::reason(e);
        shell.console.note(format_args!(
            "{what} has normal I/O priority, because the system refuses the idle priority: {why}"
        ));
    }
    began.ok()
}
