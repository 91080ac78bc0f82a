//! The environment of `host defrag run`: the clock, the interrupt, and with `--background` a disk
//! that is left to others. [`super::run`] makes one for each run.
//!
//! Invariant: see [`IdleDisk`]. The task asks for a grant for each unit; within a unit the moves
//! ask again before each piece.

use crate::arguments::HostDefragRunArgs;
use linux_host::Pacer;
use machine::IdleDisk;
use maintenance::{Host, IoGrant};
use parking_lot::Mutex;
use qos::Flow;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;
use terminal::shell::Shell;

/// See the module's head.
pub(super) struct FilesHost {
    interrupt: Interrupt,
    begin: Instant,
    /// The disk of the files, with `--background`; `None` also if it cannot be watched.
    disk: Option<Arc<LeftToOthers>>,
}

/// A disk that is left to others.
struct LeftToOthers {
    disk: Mutex<IdleDisk>,
    interrupt: Interrupt,
    waits: Mutex<Waits>,
}

/// How long a run has waited for an idle disk, and how often it has looked for others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub time: Duration,
    pub looks: u64,
}

impl Pacer for LeftToOthers {
    /// Waits at most a second. An interrupt ends the wait.
    fn wait(&self) {
        let waited = self.disk.lock().wait(|time| self.interrupt.wait(time));
        let mut waits = self.waits.lock();
        waits.time += waited;
        waits.looks += 1;
    }

    fn passed(&self, bytes: u64) {
        self.disk.lock().passed(bytes);
    }
}

impl FilesHost {
    pub fn new(shell: &Shell, args: &HostDefragRunArgs) -> std::io::Result<Self> {
        let disk = match args.background {
            true => IdleDisk::of_device(args.path.metadata()?.dev()),
            false => None,
        };
        if args.background && disk.is_none() {
            shell.console.warn(
                "the disk below these files cannot be watched, so the run has idle I/O priority only",
            );
        }
        Ok(Self {
            interrupt: shell.interrupt.clone(),
            begin: Instant::now(),
            disk: disk.map(|disk| {
                Arc::new(LeftToOthers {
                    disk: Mutex::new(disk),
                    interrupt: shell.interrupt.clone(),
                    waits: Mutex::default(),
                })
            }),
        })
    }

    /// Returns how long the run has waited for an idle disk.
    pub fn waits(&self) -> Waits {
        let waits = self.disk.as_ref().map(|disk| *disk.waits.lock());
        waits.unwrap_or_default()
    }

    /// Returns what leaves the disk to others between the pieces of a unit.
    pub fn pacer(&self) -> Option<Arc<dyn Pacer>> {
        self.disk.clone().map(|disk| disk as _)
    }
}

impl Host for FilesHost {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_to_stop(&self) -> bool {
        self.interrupt.requested()
    }

    fn ask(&self, _: Flow, _: u64) -> Option<Box<dyn IoGrant + '_>> {
        let disk = self.disk.as_ref()?;
        Some(Box::new(Given {
            disk,
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
    disk: &'a LeftToOthers,
    is_there: bool,
}

impl IoGrant for Given<'_> {
    /// Waits until the disk is idle, at most a second: the task does nothing in memory meanwhile.
    fn wait(&mut self, _: Duration) -> bool {
        Pacer::wait(self.disk);
        self.is_there = !self.disk.interrupt.requested();
        self.is_there
    }

    fn goes_on(&self) -> bool {
        false
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if self.is_there {
            // The pieces have been counted. Looking at files is reading too.
            self.disk.passed(0);
        }
    }
}
