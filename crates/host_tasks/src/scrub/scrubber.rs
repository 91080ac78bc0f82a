//! A scrub from begin to end, over restarts. The program calls this, on the task framework of
//! `maintenance`.
//!
//! Invariant: a step is bounded. A record describes the state between two steps completely: a
//! scrub that continues from it repeats at most the part that was in progress.

use super::HostScrubNews;
use super::task::{PART_BITS, Scrub};
use super::tree::{FileTree, Totals};
use archive::backup::Pacer;
use duet::{Driver, DriverOptions, Duet, DuetOptions, Mask, NothingPresent, TaskProgress};
use duet::{DriverStep, Scope, Space, TooManySessions};
use format::host_scrub::{HostScrubCounts, HostScrubFinding, HostScrubRecord};
use linux_host::Watch;
use maintenance::{Access, MaintenanceTask, TaskStep};
use qos::Flow;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use store::{Pool, StoreError};

/// Time between two looks at page events: a look waits for some milliseconds.
const LISTEN_EVERY_NS: u64 = 250_000_000;
/// Undelivered page events that are kept.
const ITEMS_MAX: usize = 1 << 18;

/// How a scrub runs.
#[derive(Default)]
pub struct HostScrubOptions<'s> {
    /// Maximum rate of bytes read from the medium.
    pub bytes_per_s: Option<u64>,
    /// Delays reads so that others have the disk first.
    pub pacer: Option<&'s dyn Pacer>,
    /// Compare in memory what others read meanwhile, where the system reports it.
    pub listens: bool,
}

/// See the module's head.
pub struct HostScrubber<'s> {
    driver: Driver,
    task: Scrub<'s>,
    /// The options, path and snapshot; the rest is of the last record.
    record: HostScrubRecord,
    listened_ns: Option<u64>,
    /// Why page events are not used.
    silent_because: Option<String>,
}

impl<'s> HostScrubber<'s> {
    /// Begins a scrub, or continues the recorded one if `record` has progress. `record` has pool,
    /// snapshot, path, options and start; its options are the tag of the progress. Nothing is read
    /// from the disk.
    pub fn new(
        pool: Arc<Pool>,
        mut tree: FileTree,
        mut record: HostScrubRecord,
        options: HostScrubOptions<'s>,
    ) -> Result<Self, TooManySessions> {
        let damaged = tree.take_damaged();
        let mut task = Scrub::new(pool, tree, options.pacer);
        task.news.extend(
            damaged
                .into_iter()
                .map(|(path, error)| HostScrubNews::PoolDamaged { path, error }),
        );
        let progress = TaskProgress::decode(&record.progress, record.options).ok();
        let progress = progress.filter(|stored| stored.done.part_bits() == PART_BITS);
        match &progress {
            Some(_) => {
                task.counts = record.counts;
                task.files = std::mem::take(&mut record.files).into_iter().collect();
                task.findings = std::mem::take(&mut record.findings).into_iter().collect();
            }
            None => record.progress = Vec::new(),
        }
        let (duet, watch) = match options.listens {
            true => listen(task.tree.top()),
            false => (Duet::silent(), Err("not requested".to_owned())),
        };
        let silent_because = match watch {
            Ok(watch) => {
                task.watch = Some(Rc::new(RefCell::new(watch)));
                None
            }
            Err(why) => Some(why),
        };
        let session = duet.register(Space::Pages, Scope::Everything, Mask::EXISTS, PART_BITS)?;
        let driver_options = DriverOptions {
            bytes_per_s: options.bytes_per_s,
            ..DriverOptions::default()
        };
        let progress = progress.unwrap_or_else(|| TaskProgress::new(PART_BITS));
        Ok(Self {
            driver: Driver::new(session, driver_options, progress),
            task,
            record,
            listened_ns: None,
            silent_because,
        })
    }

    /// Returns true if it continues where another process has stopped.
    pub fn is_continued(&self) -> bool {
        !self.record.progress.is_empty()
    }

    /// Returns why what others read is not noticed; `None` while it is.
    pub fn silent_because(&self) -> Option<&str> {
        self.silent_because.as_deref()
    }

    /// Totals of the tree.
    pub fn totals(&self) -> Totals {
        self.task.tree.totals()
    }

    /// Totals of the scrub, those before an interruption included.
    pub fn counts(&self) -> HostScrubCounts {
        self.task.counts
    }

    /// All findings, in the order of the tree.
    pub fn findings(&self) -> impl Iterator<Item = &HostScrubFinding> {
        self.task.findings.values()
    }

    /// Returns the state to store.
    pub fn record(&self) -> HostScrubRecord {
        HostScrubRecord {
            counts: self.task.counts,
            files: self
                .task
                .files
                .iter()
                .map(|(n, file)| (*n, *file))
                .collect(),
            findings: self
                .task
                .findings
                .iter()
                .map(|(n, finding)| (*n, finding.clone()))
                .collect(),
            progress: self.driver.progress().encode(self.record.options),
            ..self.record.clone()
        }
    }

    /// Takes page events, if enough time has passed. After lost ones, nothing in memory can be
    /// trusted to have come from the medium lately.
    fn listen(&mut self, now_ns: u64) {
        let is_due = self
            .listened_ns
            .is_none_or(|then| now_ns == 0 || now_ns.saturating_sub(then) >= LISTEN_EVERY_NS);
        let Some(watch) = self.task.watch.clone().filter(|_| is_due) else {
            return;
        };
        self.listened_ns = Some(now_ns);
        let mut watch = watch.borrow_mut();
        let lost = match watch.drain() {
            Ok(drained) if drained.dropped > 0 => Some("the maps of events overflowed".to_owned()),
            Ok(_) => watch.polls_because().map(str::to_owned),
            Err(e) => Some(units::reason(&e).to_string()),
        };
        if let Some(why) = lost {
            self.task.watch = None;
            self.task
                .news
                .push_back(HostScrubNews::EventsLost(why.clone()));
            self.silent_because = Some(why);
        }
    }
}

/// Begins to watch a tree. Files that are in memory now are not looked at: only pages that come
/// from now on say that others have read them from the medium.
fn listen(top: &Path) -> (Arc<Duet>, Result<Watch, String>) {
    let duet = Duet::new(DuetOptions {
        items_max: ITEMS_MAX,
        seed: 0,
    });
    let watch = Watch::start_hearing(top, Arc::clone(&duet));
    (duet, watch)
}

impl MaintenanceTask for HostScrubber<'_> {
    type News = HostScrubNews;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Scrub
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<HostScrubNews>, StoreError> {
        if let Some(news) = self.task.news.pop_front() {
            return Ok(TaskStep::News(news));
        }
        self.listen(now_ns);
        self.task.access = access;
        let limits = (budget_bytes, access);
        let (driver, task) = (&mut self.driver, &mut self.task);
        let step = match task.watch.clone() {
            Some(watch) => driver.step(task, watch.borrow().mirror(), now_ns, limits),
            None => driver.step(task, &NothingPresent, now_ns, limits),
        };
        Ok(match step? {
            DriverStep::Worked { processed, .. } => TaskStep::Worked {
                bytes: processed.bytes_read,
            },
            DriverStep::Looked => TaskStep::Worked { bytes: 0 },
            DriverStep::NeedsDevice => TaskStep::NeedsDevice,
            // The pool cannot be read: what was done is recorded.
            DriverStep::Failed { error, .. } => return Err(error),
            DriverStep::Waiting { until_ns } => TaskStep::Waiting { until_ns },
            DriverStep::Paused | DriverStep::Cancelled => TaskStep::Idle,
            DriverStep::Finished => match self.task.news.pop_front() {
                Some(news) => TaskStep::News(news),
                None => TaskStep::Finished,
            },
        })
    }
}
