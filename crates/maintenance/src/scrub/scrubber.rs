//! A scrub from begin to end, over restarts. The program calls this: a thread of a server, or a
//! command.
//!
//! Invariant: a step is bounded. Progress is recorded at intervals, and at every pause and end. The
//! last complete pass stays recorded until the next one is complete.

use super::{Scrub, ScrubFindings};
use crate::report::{TaskBytes, TaskReport, TaskTotals, share};
use crate::slots;
use crate::task::{Access, ControlledTask, MaintenanceTask, TaskStep};
use duet::{Driver, DriverOptions, Duet, Mask, NothingPresent, TaskProgress};
use duet::{DriverStep, Scope, Space, TooManySessions};
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
    /// Bytes of the pass at the last record.
    recorded_bytes: u64,
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

/// News of a step.
#[derive(Debug, Default)]
pub struct ScrubNews {
    /// Findings, to be noted in the pool and reported.
    pub found: ScrubFindings,
    /// A container that was not verified.
    pub unread: Option<Unread>,
}

impl MaintenanceTask for Scrubber {
    type News = ScrubNews;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Scrub
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<ScrubNews>, StoreError> {
        let Some(Run { driver, task }) = &mut self.run else {
            return Ok(TaskStep::Idle);
        };
        // Regions read before the session began are not reported: those reads may be old.
        let step = driver.step(task, &NothingPresent, now_ns, (budget_bytes, access))?;
        let (step, found) = self.count(step);
        Ok(match step {
            DriverStep::Worked { .. } if !found.is_empty() => TaskStep::News(ScrubNews {
                found,
                unread: None,
            }),
            DriverStep::Worked { processed, .. } => TaskStep::Worked {
                bytes: processed.bytes_read,
            },
            DriverStep::Looked => TaskStep::Worked { bytes: 0 },
            DriverStep::NeedsDevice => TaskStep::NeedsDevice,
            DriverStep::Failed { work, error } => TaskStep::News(ScrubNews {
                found,
                unread: Some(Unread {
                    container: ContainerId(work.object),
                    error,
                }),
            }),
            DriverStep::Waiting { until_ns } => TaskStep::Waiting { until_ns },
            DriverStep::Paused | DriverStep::Cancelled => TaskStep::Idle,
            DriverStep::Finished => {
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

    /// Returns the state.
    pub fn status(&self) -> ScrubStatus {
        status_of(&self.pool, &self.record)
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
    fn progress(&mut self) -> TaskProgress {
        let is_begun = self.record.phase != TaskPhase::AtRest;
        let stored = TaskProgress::decode(&self.record.progress, TAG).ok();
        match stored.filter(|progress| is_begun && progress.done.part_bits() == 0) {
            Some(progress) => progress,
            None => {
                self.record.phase = TaskPhase::AtRest;
                TaskProgress::new(0)
            }
        }
    }

    /// Counts a step, and returns its findings.
    fn count(&mut self, step: DriverStep<StoreError>) -> (DriverStep<StoreError>, ScrubFindings) {
        let Some(Run { driver, task }) = &mut self.run else {
            return (step, ScrubFindings::default());
        };
        let counts = driver.status(0).counts;
        let found = std::mem::take(&mut task.findings);
        let failed = u64::from(matches!(step, DriverStep::Failed { .. }));
        let pass = &mut self.record.pass;
        pass.damaged += found.damaged.len() as u64 + failed;
        pass.containers = counts.pages_done;
        pass.read_bytes = counts.bytes_read;
        pass.cached_bytes = counts.bytes_cached;
        (step, found)
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
}

impl ControlledTask for Scrubber {
    type Report = ScrubStatus;

    /// The record has the phase.
    fn report(&self, _: TaskPhase) -> ScrubStatus {
        self.status()
    }

    fn limit(&mut self, bytes_per_s: Option<u64>) {
        if let Some(run) = &mut self.run {
            run.driver.limit(bytes_per_s);
        }
    }

    fn wants_record(&self) -> bool {
        Self::wants_record(self)
    }

    fn record(&mut self) -> Result<(), StoreError> {
        Ok(Self::record(self)?)
    }

    fn stop(&mut self, phase: TaskPhase) -> Result<(), StoreError> {
        match phase {
            TaskPhase::UnderWay => {}
            TaskPhase::Paused => return Ok(self.pause()?),
            TaskPhase::AtRest => {
                self.run = None;
                self.record.phase = TaskPhase::AtRest;
                self.record.pass = Pass::default();
                self.record.progress = Vec::new();
            }
        }
        Ok(Self::record(self)?)
    }

    /// The catalog may be readable again.
    fn is_over_after(&self, _: &StoreError) -> bool {
        false
    }

    fn last_recorded(pool: &Pool) -> Option<ScrubStatus> {
        Some(Self::recorded(pool))
    }

    fn stop_recorded(pool: &Pool, phase: TaskPhase) -> Result<Option<ScrubStatus>, StoreError> {
        let mut record: ScrubRecord = slots::read(pool);
        if record.phase == TaskPhase::AtRest {
            return Ok(None);
        }
        record.phase = phase;
        slots::write(pool, &mut record)?;
        Ok(Some(status_of(pool, &record)))
    }
}

impl TaskReport for ScrubStatus {
    const NAME: &'static str = "scrub";
    const DOING: &'static str = "scrubbing";
    const FLOW: Flow = Flow::Scrub;

    fn phase(&self) -> TaskPhase {
        self.phase
    }

    fn began(&self) -> UnixNanos {
        self.pass.began
    }

    fn progress(&self) -> f64 {
        match self.phase {
            TaskPhase::AtRest => 0.0,
            _ => share(self.pass.containers, self.containers),
        }
    }

    fn totals(&self) -> TaskTotals {
        TaskTotals {
            bytes: TaskBytes {
                disk: self.pass.read_bytes,
                cache: self.pass.cached_bytes,
            },
            damaged: self.pass.damaged,
        }
    }

    fn left_bytes(&self) -> u64 {
        self.stored_bytes.saturating_sub(bytes_of(&self.pass))
    }
}

fn bytes_of(pass: &Pass) -> u64 {
    pass.read_bytes.saturating_add(pass.cached_bytes)
}

fn status_of(pool: &Pool, record: &ScrubRecord) -> ScrubStatus {
    let status = ScrubStatus {
        phase: record.phase,
        pass: record.pass,
        last: record.last,
        ..ScrubStatus::default()
    };
    status.in_pool(pool)
}

impl ScrubStatus {
    /// Returns the same with the present size of the pool.
    pub fn in_pool(self, pool: &Pool) -> Self {
        let root = pool.record();
        Self {
            containers: root.containers,
            stored_bytes: root.stored_bytes,
            ..self
        }
    }

    /// Returns the end of the last complete pass; `None` if there was none.
    pub fn verified(&self) -> Option<UnixNanos> {
        (self.last.ended != UnixNanos::default()).then_some(self.last.ended)
    }
}
