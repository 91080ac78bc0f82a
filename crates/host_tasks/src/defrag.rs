//! Defragmentation of files of a Linux host, as a maintenance task: what is in memory first. The
//! program runs it for `quintet host defrag run`.
//!
//! ```text
//! Walker --files--> plan_span --units--> Driver: units in memory, else the tree's order
//!                                          ^                        |
//! Watch, cachestat: pages in memory -------+     FileDefrag <-------+
//! ```
//!
//! A unit is up to 8 MiB of ranges of one file that share a donor. A unit of which all or a part is
//! in memory comes before others: it needs fewer reads. `cachestat` says so when a unit is planned,
//! and again when an event says that a page of it came into memory.
//!
//! Invariant: the order changes which bytes are read, not which ranges are moved. Each step is
//! bounded: it looks at a few files, or moves one unit. A move writes, so each
//! needs an I/O grant.

mod files;
mod outcome;

pub use outcome::{HostDefragOutcome, HostFile, HostLeftAlone};

use duet::{
    Driver, DriverOptions, DriverStep, Duet, DuetOptions, Mask, Scope, Space, TaskProgress,
};
use files::{Files, PART_BITS};
use format::phase::TaskPhase;
use linux_host::{Histogram, HotRanges, Pacer, Walked, Watch};
use maintenance::{Access, MaintenanceTask, TaskBytes, TaskReport, TaskStep, TaskTotals};
use qos::Flow;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::UnixNanos;

/// Units that are planned ahead at most: so far away may a unit be that is moved first.
const AHEAD_MAX: usize = 1024;
/// Units of the own order that a step asks for at most.
const ASKS_MAX: usize = 16;
/// Events are watched once a run has lasted so long, nanoseconds: watching takes 64 MiB of the
/// kernel's memory, and short runs have asked about every page just now.
const WATCH_AFTER_NS: u64 = 2_000_000_000;
/// Time between two looks at events, nanoseconds.
const HINTS_EVERY_NS: u64 = 100_000_000;

/// Settings of a run.
pub struct HostDefragOptions {
    /// Ranges to look at; none: all windows of 128 KiB.
    pub heat: Option<HotRanges>,
    /// Move extents that other files or snapshots own too.
    pub moves_shared: bool,
    /// Move whole ranges between two fragmented ones too ([`linux_host::SpanOptions::joins`]).
    pub joins: bool,
    /// Decide, and change nothing.
    pub dry_run: bool,
    /// Bytes to write at most.
    pub bytes_max: Option<u64>,
    /// Bytes to read and write each second at most.
    pub bytes_per_s: Option<u64>,
    /// Move what is in memory first; otherwise in the order of the tree.
    pub cached_first: bool,
    /// Leaves the device to others between the pieces of a unit.
    pub pacer: Option<Arc<dyn Pacer>>,
    /// When the run began.
    pub began: UnixNanos,
}

/// State of a run.
#[derive(Clone, Debug)]
pub struct HostDefragReport {
    phase: TaskPhase,
    began: UnixNanos,
    /// Files that were looked at.
    pub files: u64,
    /// Files and directories that could not be.
    pub failed: u64,
    /// Bytes of units that wait.
    pub waiting_bytes: u64,
    /// Every file was planned: no more units come.
    pub is_planned: bool,
    /// Work that was done.
    pub outcome: HostDefragOutcome,
}

impl TaskReport for HostDefragReport {
    const NAME: &'static str = "host_defrag";
    const DOING: &'static str = "moving extents";
    const FLOW: Flow = Flow::Defragment;

    fn phase(&self) -> TaskPhase {
        self.phase
    }

    fn began(&self) -> UnixNanos {
        self.began
    }

    /// 0 until every file is planned.
    fn progress(&self) -> f64 {
        match self.is_planned && self.phase != TaskPhase::AtRest {
            true => {
                let planned = self.outcome.planned_bytes;
                maintenance::share(planned, planned.saturating_add(self.waiting_bytes))
            }
            false => 0.0,
        }
    }

    fn totals(&self) -> TaskTotals {
        let moved = &self.outcome.migrated;
        TaskTotals {
            bytes: TaskBytes::of(moved.read_bytes, moved.cached_bytes),
            damaged: 0,
        }
    }

    fn left_bytes(&self) -> u64 {
        // They are read and written.
        self.waiting_bytes.saturating_mul(2)
    }
}

/// See the module's head.
pub struct HostDefrag {
    top: PathBuf,
    began: UnixNanos,
    cached_first: bool,
    began_ns: Option<u64>,
    hints_at_ns: u64,
    duet: Arc<Duet>,
    /// Events; none before [`WATCH_AFTER_NS`], and where they cannot be seen.
    watch: Option<Watch>,
    /// Why there are no events.
    blind_because: Option<String>,
    driver: Driver,
    files: Files,
}

impl HostDefrag {
    /// Begins a run over the files at and below `top`, on its mount.
    pub fn new(top: &Path, options: HostDefragOptions) -> io::Result<Self> {
        let duet = Duet::new(DuetOptions {
            items_max: 1 << 16,
            seed: 0,
        });
        let mask = Mask::EXISTS;
        let session = duet
            .register(Space::Pages, Scope::Everything, mask, PART_BITS)
            .map_err(io::Error::other)?;
        let lookahead = match options.cached_first {
            true => AHEAD_MAX,
            false => 1,
        };
        let driver_options = DriverOptions {
            lookahead: Some(lookahead),
            asks_max: ASKS_MAX,
            bytes_per_s: options.bytes_per_s,
            ..DriverOptions::default()
        };
        let driver = Driver::new(session, driver_options, TaskProgress::new(PART_BITS));
        Ok(Self {
            top: top.to_owned(),
            began: options.began,
            cached_first: options.cached_first,
            began_ns: None,
            hints_at_ns: 0,
            duet,
            watch: None,
            blind_because: None,
            driver,
            files: Files::new(top, options)?,
        })
    }

    /// Returns the state.
    pub fn report(&self, phase: TaskPhase) -> HostDefragReport {
        HostDefragReport {
            phase,
            began: self.began,
            files: self.files.looked_at,
            failed: self.files.failures(),
            waiting_bytes: self.files.waiting_bytes,
            is_planned: self.files.is_planned(),
            outcome: self.files.total.clone(),
        }
    }

    /// Returns the sizes of the pieces of all files that were looked at, before and after.
    pub fn histograms(&self) -> (&Histogram, &Histogram) {
        (&self.files.before, &self.files.after)
    }

    /// Returns whether events of the page cache say what is in memory; `Err`: why not. `None`: the
    /// run was too short for that.
    pub fn hears_events(&self) -> Option<Result<(), &str>> {
        match (&self.watch, &self.blind_because) {
            (Some(_), _) => Some(Ok(())),
            (None, why) => why.as_deref().map(Err),
        }
    }

    /// Ends the run. Returns what files could not be asked about, and those whose extents could not
    /// be moved because of an I/O error; the outcomes of files that a stopped run has begun come
    /// first.
    pub fn end(self) -> (Vec<HostFile>, Walked, Vec<(PathBuf, io::Error)>) {
        self.files.end()
    }

    /// Learns which pages came into memory.
    fn hear(&mut self, now_ns: u64) {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        if !self.cached_first || self.hints_at_ns > now_ns {
            return;
        }
        self.hints_at_ns = now_ns.saturating_add(HINTS_EVERY_NS);
        match self.watch.as_mut().map(Watch::take_hints) {
            Some(true) => {}
            Some(false) => {
                let watch = self.watch.take();
                let why = watch.as_ref().and_then(Watch::polls_because);
                self.blind_because = why.map(str::to_owned);
            }
            None if self.blind_because.is_none()
                && now_ns.saturating_sub(began_ns) >= WATCH_AFTER_NS =>
            {
                self.begin_watch();
            }
            None => {}
        }
        self.files
            .asks_again(self.watch.as_ref().map(Watch::mirror));
    }

    fn begin_watch(&mut self) {
        match Watch::start_hearing(&self.top, Arc::clone(&self.duet)) {
            Ok(watch) => self.watch = Some(watch),
            Err(why) => self.blind_because = Some(why),
        }
    }
}

impl MaintenanceTask for HostDefrag {
    type News = HostFile;
    type Error = Infallible;

    fn flow(&self) -> Flow {
        Flow::Defragment
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<HostFile>, Infallible> {
        if let Some(file) = self.files.news.pop_front() {
            return Ok(TaskStep::News(file));
        }
        if access == Access::Memory {
            return Ok(TaskStep::NeedsDevice);
        }
        self.hear(now_ns);
        let work = (budget_bytes, access);
        let files = &mut self.files;
        let step = match &self.watch {
            Some(watch) => self.driver.step(files, watch.mirror(), now_ns, work),
            None => self.driver.step(files, &duet::NothingPresent, now_ns, work),
        };
        Ok(match step {
            // It has looked at files that need nothing.
            Err(files::StillLooking) => TaskStep::Worked { bytes: 0 },
            Ok(DriverStep::Worked { processed, .. }) => TaskStep::Worked {
                bytes: processed.bytes_read + processed.bytes_written,
            },
            Ok(DriverStep::Looked | DriverStep::Failed { .. }) => TaskStep::Worked { bytes: 0 },
            Ok(DriverStep::NeedsDevice) => TaskStep::NeedsDevice,
            Ok(DriverStep::Waiting { until_ns }) => TaskStep::Waiting { until_ns },
            Ok(DriverStep::Paused | DriverStep::Cancelled) => TaskStep::Idle,
            Ok(DriverStep::Finished) => match self.files.news.pop_front() {
                Some(file) => TaskStep::News(file),
                None => TaskStep::Finished,
            },
        })
    }
}
