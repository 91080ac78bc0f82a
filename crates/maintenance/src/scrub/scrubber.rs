//! A scrub from begin to end, over restarts. The program calls this: a thread of a server, or a
//! command.
//!
//! Invariant: a step is bounded. Progress is recorded at intervals, and at every pause and end. The
//! last complete pass stays recorded until the next one is complete.

use super::{Scrub, ScrubFindings};
use crate::slots;
use crate::task::{Access, MaintenanceTask, TaskStep};
use duet::{Driver, DriverOptions, Duet, Mask, NothingPresent, Progress};
use duet::{Scope, Space, Step, TooManySessions};
use format::phase::TaskPhase;
use format::scrub::{Pass, ScrubRecord};
use media::MediaError;
use qos::Flow;
use std::sync::Arc;
use store::{Pool, StoreError};
use units::{ContainerId, UnixNanos};

/// Stored bytes verified between two records: the maximum that a crash repeats.
const RECORD_EVERY_BYTES: u64 = 1 << 30;
/// Tag of a scrub's progress.
const TAG: u64 = u64::from_be_bytes(*b"scrub\0\0\x01");

/// See the module's head.
pub struct Scrubber {
    pool: Arc<Pool>,
    duet: Arc<Duet>,
    record: ScrubRecord,
    run: Option<Run>,
    findings: ScrubFindings,
    /// Bytes of the pass at the last record.
    recorded_bytes: u64,
    totals: ScrubTotals,
}

/// Totals since the process began, over all passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubTotals {
    /// Stored bytes read from the device.
    pub read_bytes: u64,
    /// Stored bytes that readers had verified.
    pub cached_bytes: u64,
    /// Damaged places that were found.
    pub damaged: u64,
}

/// A pass that this process runs.
struct Run {
    driver: Driver,
    task: Scrub,
}

/// Progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Phase.
    pub phase: TaskPhase,
    /// The pass in progress or paused.
    pub pass: Pass,
    /// The last pass that ended.
    pub last: Pass,
    /// Containers of the pool.
    pub containers: u64,
    /// Their bytes.
    pub stored_bytes: u64,
}

/// The device could not read a container: it is left for the next pass.
#[derive(Debug)]
pub struct Unread {
    /// The container.
    pub container: ContainerId,
    /// The cause.
    pub error: StoreError,
}

impl MaintenanceTask for Scrubber {
    type News = Unread;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Scrub
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<Unread>, StoreError> {
        let Some(Run { driver, task }) = &mut self.run else {
            return Ok(TaskStep::Idle);
        };
        // Regions read before the session began are not reported: those reads may be old.
        let step = driver.step(task, &NothingPresent, now_ns, (budget_bytes, access))?;
        Ok(match self.count(step) {
            Step::Worked { processed, .. } => TaskStep::Worked {
                bytes: processed.bytes_read,
            },
            Step::Looked => TaskStep::Worked { bytes: 0 },
            Step::NeedsDevice => TaskStep::NeedsDevice,
            Step::Failed { work, error } => TaskStep::News(Unread {
                container: ContainerId(work.object),
                error,
            }),
            Step::Waiting { until_ns } => TaskStep::Waiting { until_ns },
            Step::Paused | Step::Cancelled => TaskStep::Idle,
            Step::Finished => {
                self.finish();
                TaskStep::Finished
            }
        })
    }
}

impl Scrubber {
    /// Reads the record. Readers' events come from `duet`.
    pub fn new(pool: Arc<Pool>, duet: Arc<Duet>) -> Self {
        let record: ScrubRecord = slots::read(&pool);
        Self {
            recorded_bytes: bytes_of(&record.pass),
            pool,
            duet,
            record,
            run: None,
            findings: ScrubFindings::default(),
            totals: ScrubTotals::default(),
        }
    }

    /// For a process without other readers.
    pub fn alone(pool: Arc<Pool>) -> Self {
        Self::new(pool, Duet::silent())
    }

    /// Returns the recorded progress of a pool's scrub.
    pub fn recorded(pool: &Pool) -> ScrubStatus {
        let record: ScrubRecord = slots::read(pool);
        status_of(pool, &record)
    }

    /// Returns the progress.
    pub fn status(&self) -> ScrubStatus {
        status_of(&self.pool, &self.record)
    }

    /// Returns the totals of this process.
    pub fn totals(&self) -> ScrubTotals {
        self.totals
    }

    /// Begins a pass, or continues a paused one. Changes the rate limit of a running one.
    pub fn start(&mut self, bytes_per_s: Option<u64>) -> Result<(), TooManySessions> {
        if let Some(run) = &mut self.run {
            run.driver.limit(bytes_per_s);
            return Ok(());
        }
        let session = self
            .duet
            .register(Space::Containers, Scope::Everything, Mask::ADDED, 0)?;
        let progress = self.progress();
        let options = DriverOptions {
            bytes_per_s,
            ..DriverOptions::default()
        };
        self.run = Some(Run {
            task: Scrub::new(Arc::clone(&self.pool), &progress),
            driver: Driver::new(session, options, progress),
        });
        if self.record.phase == TaskPhase::AtRest {
            self.record.pass = Pass {
                began: self.pool.now(),
                ..Pass::default()
            };
        }
        self.record.phase = TaskPhase::UnderWay;
        Ok(())
    }

    /// Returns the progress of the pass. Progress that cannot be trusted is dropped, and the work
    /// is done again.
    fn progress(&mut self) -> Progress {
        let is_begun = self.record.phase != TaskPhase::AtRest;
        let stored = Progress::decode(&self.record.progress, TAG).ok();
        match stored.filter(|progress| is_begun && progress.done.part_bits() == 0) {
            Some(progress) => progress,
            None => {
                self.record.phase = TaskPhase::AtRest;
                Progress::new(0)
            }
        }
    }

    /// Adds the findings and counts of a step.
    fn count(&mut self, step: Step<StoreError>) -> Step<StoreError> {
        let Some(Run { driver, task }) = &mut self.run else {
            return step;
        };
        let counts = driver.status(0).counts;
        let found = std::mem::take(&mut task.findings);
        let failed = u64::from(matches!(step, Step::Failed { .. }));
        let damaged = found.damaged.len() as u64 + failed;
        let (pass, totals) = (&mut self.record.pass, &mut self.totals);
        pass.damaged += damaged;
        totals.damaged += damaged;
        totals.read_bytes += counts.bytes_read.saturating_sub(pass.read_bytes);
        totals.cached_bytes += counts.bytes_cached.saturating_sub(pass.cached_bytes);
        self.findings.damaged.extend(found.damaged);
        self.findings.taken_back.extend(found.taken_back);
        pass.containers = counts.pages_done;
        pass.read_bytes = counts.bytes_read;
        pass.cached_bytes = counts.bytes_cached;
        step
    }

    fn finish(&mut self) {
        self.run = None;
        self.record.phase = TaskPhase::AtRest;
        self.record.progress = Vec::new();
        self.record.last = Pass {
            ended: self.pool.now(),
            ..std::mem::take(&mut self.record.pass)
        };
    }

    /// Returns the findings since the last call. The caller notes them in the pool and reports
    /// them.
    pub fn take_findings(&mut self) -> ScrubFindings {
        std::mem::take(&mut self.findings)
    }

    /// Returns true if enough was done since the last record.
    pub fn wants_record(&self) -> bool {
        bytes_of(&self.record.pass).abs_diff(self.recorded_bytes) >= RECORD_EVERY_BYTES
    }

    /// Records the progress. A failure costs work after a restart, nothing else.
    pub fn record(&mut self) -> Result<(), MediaError> {
        if let Some(run) = &self.run {
            self.record.progress = run.driver.progress().encode(TAG);
        }
        self.recorded_bytes = bytes_of(&self.record.pass);
        slots::write(&self.pool, &mut self.record)
    }

    /// Pauses the pass. The container in progress is begun anew later.
    pub fn pause(&mut self) -> Result<(), MediaError> {
        if self.record.phase == TaskPhase::AtRest {
            return Ok(());
        }
        self.record.phase = TaskPhase::Paused;
        let recorded = self.record();
        self.run = None;
        recorded
    }

    /// Returns true if steps do something.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Returns true if a pass is in progress, or was when the last process ended.
    pub fn is_under_way(&self) -> bool {
        self.record.phase == TaskPhase::UnderWay
    }
}

fn bytes_of(pass: &Pass) -> u64 {
    pass.read_bytes.saturating_add(pass.cached_bytes)
}

fn status_of(pool: &Pool, record: &ScrubRecord) -> ScrubStatus {
    let root = pool.record();
    ScrubStatus {
        phase: record.phase,
        pass: record.pass,
        last: record.last,
        containers: root.containers,
        stored_bytes: root.stored_bytes,
    }
}

impl ScrubStatus {
    /// Returns the end of the last complete pass; `None` if there was none.
    pub fn verified(&self) -> Option<UnixNanos> {
        (self.last.ended != UnixNanos::default()).then_some(self.last.ended)
    }
}
