//! The environment of `host defrag run`: the clock, the interrupt, and with `--background` a disk
//! that is left to others. [`super::run`] makes one for each run.
//!
//! Invariant: see [`IdleDisk`].

use crate::cli::HostDefragRunArgs;
use crate::commands::invocation::Invocation;
use linux_host::IdleDisk;
use maintenance::{Host, IoGrant};
use parking_lot::Mutex;
use qos::Flow;
use server::interrupt::Interrupt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// See the module's head.
pub(super) struct Machine {
    interrupt: Interrupt,
    begin: Instant,
    /// The disk of the files, with `--background`; `None` also if it cannot be watched.
    disk: Option<Mutex<IdleDisk>>,
    waited: Mutex<Duration>,
}

impl Machine {
    pub fn new(invocation: &Invocation, args: &HostDefragRunArgs) -> std::io::Result<Self> {
        let disk = match args.background {
            true => IdleDisk::of_device(args.path.metadata()?.dev()),
            false => None,
        };
        if args.background && disk.is_none() {
            invocation.console.warn(
                "the disk below these files cannot be watched, so the run has idle I/O priority only",
            );
        }
        Ok(Self {
            interrupt: invocation.interrupt.clone(),
            begin: Instant::now(),
            disk: disk.map(Mutex::new),
            waited: Mutex::default(),
        })
    }

    /// Returns how long the run has waited for an idle disk.
    pub fn waited(&self) -> Duration {
        *self.waited.lock()
    }
}

impl Host for Machine {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_to_stop(&self) -> bool {
        self.interrupt.requested()
    }

    fn ask(&self, _: Flow, bytes: u64) -> Option<Box<dyn IoGrant + '_>> {
        let disk = self.disk.as_ref()?;
        Some(Box::new(Given {
            machine: self,
            disk,
            bytes,
            is_there: false,
        }))
    }

    fn wait_until(&self, until_ns: u64) {
        let left_ns = until_ns.saturating_sub(self.now_ns());
        self.interrupt.wait(Duration::from_nanos(left_ns));
    }
}

/// A grant: what was done in it does not count as requests of others.
struct Given<'a> {
    machine: &'a Machine,
    disk: &'a Mutex<IdleDisk>,
    bytes: u64,
    is_there: bool,
}

impl IoGrant for Given<'_> {
    /// Waits until the disk is idle, at most a second: the task does nothing in memory meanwhile.
    fn wait(&mut self, _: Duration) -> bool {
        let interrupt = &self.machine.interrupt;
        let waited = self.disk.lock().wait(|time| interrupt.wait(time));
        *self.machine.waited.lock() += waited;
        self.is_there = !interrupt.requested();
        self.is_there
    }

    fn goes_on(&self) -> bool {
        false
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if self.is_there {
            self.disk.lock().passed(self.bytes);
        }
    }
}
