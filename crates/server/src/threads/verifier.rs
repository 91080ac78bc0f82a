//! The thread that scrubs while a server holds the pool. `serve` starts it.
//!
//! Invariant: it uses the device when it is idle, and otherwise a small share of its time (`qos`),
//! which rises when a pass would take too long. It does not hold the writer lock while it scrubs; a
//! repair from a replica does. Damage is reported at once, and recorded in the pool when the thread
//! gets the writer lock.
//!
//! ```text
//! due, or started by a command --> step ... step --> pass ends: record damage, repair
//!                                    |               from the replica, name affected files
//!                                    +-- every 30 s: record damage found so far
//! ```

use super::background::Background;
use crate::interrupt::Interrupt;
use crate::program::Program;
use crate::scrub_notes::{ScrubNotes, unread_words};
use crate::state::{ServerState, TaskHost, seconds};
use device::StepGrant;
use maintenance::{Access, Advance, MaintenanceTask, StepSizes, TaskStep, Unread, advance};
use media::IoOrigin;
use qos::Flow;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{CheckDepth, LaneOptions, StoreError};
use units::Origin;

/// Step sizes. The thread always shares the device with clients.
const SIZES: StepSizes = StepSizes::new(4 << 20);
/// Maximum wait while there is nothing to do. A start ends it.
const AT_REST: Duration = Duration::from_secs(60);
/// Maximum time between finding damage and recording it in the pool. The end of a pass records it
/// too.
const NOTE_AFTER: Duration = Duration::from_secs(30);
/// Time between two records of the progress.
const RECORD_EVERY: Duration = Duration::from_secs(60);
/// Maximum time that a repair keeps an I/O grant.
const TURN_MAX: Duration = Duration::from_millis(20);
/// Pause after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of affected names in messages. `check` lists all of them.
const NAMES_MAX: usize = 20;

/// Starts the thread. A pass that was in progress is resumed.
pub fn start(
    server: &Arc<ServerState>,
    program: &Arc<dyn Program>,
    lane: LaneOptions,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let work = Work {
        server: Arc::clone(server),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        lane,
        findings: ScrubNotes::default(),
        is_finished: false,
        unnoted_since: None,
        recorded: Instant::now(),
        said: None,
        put_back: 0,
    };
    let server = Arc::clone(server);
    let wake = move || server.scrub.wake();
    Background::start("scrub", interrupt, move || work.run(), wake)
}

struct Work {
    server: Arc<ServerState>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    lane: LaneOptions,
    findings: ScrubNotes,
    /// A pass has just ended.
    is_finished: bool,
    /// Time when the first unrecorded damage was found.
    unnoted_since: Option<Instant>,
    recorded: Instant,
    /// The failure that was reported last.
    said: Option<String>,
    /// Number of containers put back for readers that was reported last.
    put_back: u64,
}

impl MaintenanceTask for Work {
    type News = Unread;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Scrub
    }

    /// Holds the scrub's lock for one step, so that commands can control the scrub in between.
    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<Unread>, StoreError> {
        let (step, found) = {
            let mut scrubber = self.server.scrub.scrubber();
            let step = scrubber.step_with(now_ns, budget_bytes, access);
            (step, scrubber.take_findings())
        };
        self.findings.add(&found);
        self.program.found(&found);
        if self.findings.is_unnoted() {
            self.unnoted_since.get_or_insert_with(Instant::now);
        }
        step
    }
}

impl Work {
    fn run(mut self) {
        let _io_origin = IoOrigin::of(Origin::Scrub).begin();
        let (server, interrupt) = (Arc::clone(&self.server), self.interrupt.clone());
        let host = TaskHost::new(Some(&server), &interrupt);
        if self.server.scrub.scrubber().is_under_way() {
            self.say_failure(self.server.scrub.start(None).err().map(|e| e.to_string()));
        }
        while !self.interrupt.requested() {
            self.put_back();
            if !self.server.scrub.scrubber().is_running() {
                self.settle(true);
                self.begin_if_due();
                continue;
            }
            match advance(&mut self, &host, SIZES) {
                Ok(Advance::Stopped) => break,
                Ok(Advance::Step(step)) => self.judge(step, &host),
                Err(e) => {
                    self.say_failure(Some(e.to_string()));
                    self.interrupt.wait(FAILED_PAUSE);
                }
            }
            if std::mem::take(&mut self.is_finished) {
                self.finish();
            }
            self.settle(false);
        }
        self.settle(true);
        self.record();
    }

    /// Writes containers back that parity restored for readers, and reports their number.
    fn put_back(&mut self) {
        let pool = &self.server.pool;
        pool.put_back_restored();
        let restored = pool.restored_for_readers();
        if restored > self.put_back {
            self.program.warn(format_args!(
                "containers that readers found damaged and parity restored: {}. Check the disk, which may be failing",
                restored - self.put_back
            ));
            self.put_back = restored;
        }
    }

    /// Begins a pass if one is due. Otherwise waits.
    fn begin_if_due(&mut self) {
        let shares = self.server.shares();
        let (pool, scrub) = (&self.server.pool, &self.server.scrub);
        let due_s = scrub.due_s(pool.now(), pool.config().created, shares.within.scrub_s);
        let due_s = due_s.filter(|_| shares.schedule.scrubs).unwrap_or(u64::MAX);
        let left_s = due_s.saturating_sub(seconds(pool.now()));
        if left_s > 0 {
            let rest = AT_REST.min(Duration::from_secs(left_s));
            scrub.wait(rest, || self.interrupt.requested());
            return;
        }
        match scrub.start_by_itself() {
            Ok(()) => self.program.note(format_args!(
                "scrub: a new pass begins, because the last one is too old"
            )),
            Err(e) => {
                self.say_failure(Some(e.to_string()));
                self.interrupt.wait(AT_REST);
            }
        }
    }

    /// Acts on the result of a step.
    fn judge(&mut self, step: TaskStep<Unread>, host: &TaskHost<'_>) {
        match step {
            TaskStep::Worked { .. } => {
                self.said = None;
                if self.recorded.elapsed() >= RECORD_EVERY {
                    self.record();
                }
            }
            TaskStep::News(unread) => {
                self.findings.failures += 1;
                self.program.warn(format_args!("{}", unread_words(&unread)));
            }
            TaskStep::Waiting { until_ns } => host.wait_until(until_ns),
            TaskStep::NeedsDevice | TaskStep::Idle => {}
            TaskStep::Finished => {
                self.record();
                self.is_finished = true;
            }
        }
    }

    fn record(&mut self) {
        self.recorded = Instant::now();
        let recorded = self.server.scrub.scrubber().record();
        self.say_failure(recorded.err().map(|e| e.to_string()));
    }

    fn say_failure(&mut self, failure: Option<String>) {
        if let Some(why) = &failure
            && self.said != failure
        {
            self.program.warn(format_args!("scrub: {why}"));
            self.said = failure;
        }
    }

    /// Records damage in the pool, if `now` is true or the damage has waited long enough. Waits for
    /// the writer lock.
    fn settle(&mut self, now: bool) {
        let is_time = self
            .unnoted_since
            .is_some_and(|since| since.elapsed() >= NOTE_AFTER);
        if !self.findings.is_unnoted() || !(now || is_time) {
            return;
        }
        // The server is ending. The damage was reported, and the next scrub finds it again.
        let Ok(pool) = self.server.for_writing(&self.interrupt, || ()) else {
            return;
        };
        let noted = self.findings.note(&pool, self.lane);
        self.unnoted_since = noted.is_err().then(Instant::now);
        self.say_failure(noted.err().map(|e| e.to_string()));
    }

    /// Repairs damaged chunks, old and new, from the replica if there is one.
    fn repair(&mut self) {
        let pool = &self.server.pool;
        let replica = self.server.scrub.take_replica();
        let Some(replica) = replica.filter(|_| pool.reader().knows_damage()) else {
            return;
        };
        let Ok(grant) = self.server.for_writing(&self.interrupt, || ()) else {
            return;
        };
        let (server, interrupt) = (&self.server, &self.interrupt);
        let mut at_device: Option<(StepGrant<'_>, Instant)> = None;
        let mut between = || {
            if at_device
                .as_ref()
                .is_some_and(|(_, since)| since.elapsed() < TURN_MAX)
            {
                return;
            }
            at_device = None;
            let grant = server.grant(Flow::Scrub, SIZES.grant_bytes, interrupt);
            at_device = grant.ok().map(|grant| (grant, Instant::now()));
        };
        let repaired = self
            .program
            .repair(&replica, &grant, self.lane, interrupt, &mut between);
        drop(at_device);
        if !self.interrupt.requested() {
            self.say_failure(repaired.err());
        }
    }

    /// Ends a pass: records damage, repairs, and reports the affected files and images.
    fn finish(&mut self) {
        self.settle(true);
        self.repair();
        let findings = std::mem::take(&mut self.findings);
        self.unnoted_since = None;
        if findings.damaged == 0 {
            return;
        }
        match self.affected() {
            Ok(names) if names.is_empty() => {}
            Ok(names) => {
                for name in names.iter().take(NAMES_MAX) {
                    self.program.warn(format_args!("damage reaches {name}"));
                }
                let all = names.len();
                self.program.warn(format_args!(
                    "affected files and images: {all} (see quintet check). Back up their sources again"
                ));
            }
            Err(e) => self.say_failure(Some(e.to_string())),
        }
    }

    fn affected(&self) -> Result<Vec<String>, StoreError> {
        let stop = &self.interrupt;
        let go_on = &mut |_, _| match stop.requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let report = self.server.pool.check(CheckDepth::Structure, go_on)?;
        let (snapshots, _) = self.server.pool.snapshots_readable()?;
        let name = |affected: &store::Affected| {
            let snapshot = snapshots.iter().find(|s| s.id == affected.snapshot);
            let of = snapshot.map_or("a volume", |s| s.name.as_str());
            let path = archive::printable::printable(&affected.path);
            format!("{} {of} {path}", affected.snapshot)
        };
        Ok(report.affected.iter().map(name).collect())
    }
}
