//! The thread that runs garbage collection while a server holds the pool, when it is due. `serve`
//! starts it.
//!
//! Invariant: it does not take the writer lock, so commands never wait for it, and it ends its run
//! when the command `gc` wants to run. It uses the device with the shares of `gc`, and more only
//! while little space is free. Back-pressure delays writers only as long as gc can free something.
//! `maintenance::CollectSchedule` decides when a run begins.

use super::background::Background;
use crate::program::Program;
use crate::state::{Collection, TaskHost, Tasks, checkpoint_all, seconds};
use maintenance::{
    CollectDecision, Collecting, Collector, GcPolicy, GcStage, Host, IoGrant, PoolSpace, RunEnd,
    StepSizes, Urgency, run_task,
};
use media::IoOrigin;
use qos::Flow;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Discarded, LaneOptions, StoreError};
use terminal::interrupt::Interrupt;
use units::Origin;

/// Time between two checks of the free space.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time between two checks of the trash.
const TRASH_EVERY: Duration = Duration::from_secs(30);
/// Step of a run that is not urgent, bytes.
const STEP_BYTES: u64 = 256 << 10;
/// Step of an urgent run, bytes.
const STEP_BYTES_URGENT: u64 = 1 << 20;
const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: u64 = 86_400;

/// Starts the thread. When it ends, it releases delayed writers.
pub fn start(
    tasks: &Arc<Tasks>,
    program: &Arc<dyn Program>,
    lane: LaneOptions,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let work = Work {
        tasks: Arc::clone(tasks),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        lane,
        trash: Trash::default(),
        looked: None,
        said: None,
    };
    Background::start("reclaim", interrupt, move || work.run(), || {})
}

/// Contents of the trash, as far as the schedule needs them.
#[derive(Clone, Copy, Default)]
struct Trash {
    since_s: Option<u64>,
    over_bytes: u64,
    purge_s: Option<u64>,
}

struct Work {
    tasks: Arc<Tasks>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    lane: LaneOptions,
    trash: Trash,
    looked: Option<Instant>,
    /// The failure that was reported last.
    said: Option<String>,
}

impl Work {
    fn run(mut self) {
        let _io_origin = IoOrigin::of(Origin::Collect).begin();
        while !self.interrupt.requested() {
            self.look();
            self.interrupt.wait(LOOK_EVERY);
        }
        self.tasks.volumes.keep_free(0);
    }

    /// Updates the back-pressure and runs gc if it is due.
    fn look(&mut self) {
        self.tasks.pool.keep_reserve();
        let schedule = self.tasks.shares().schedule;
        if !schedule.collects {
            self.tasks.volumes.keep_free(0);
            self.tasks.collecting.expect(None);
            return;
        }
        self.look_at_trash();
        let space = self.space();
        let (keep_free, decision) = self.tasks.collecting.schedule(schedule.limits, |schedule| {
            (schedule.keep_free_bytes(&space), schedule.decide(&space))
        });
        self.tasks.volumes.keep_free(keep_free);
        match decision {
            CollectDecision::Wait(next) => self.tasks.collecting.expect(Some(next)),
            CollectDecision::Begin(urgency) => self.collect(urgency),
        }
    }

    fn space(&self) -> PoolSpace {
        let pool = &self.tasks.pool;
        PoolSpace {
            now_s: seconds(pool.now()),
            room: pool.room(),
            journal_bytes: self.tasks.volumes.journal_usage().bytes_max,
            stored_bytes: pool.record().stored_bytes,
            trashed_s: self.trash.since_s,
            trash_over_bytes: self.trash.over_bytes,
            purge_s: self.trash.purge_s,
        }
    }

    /// Reads the trash at intervals, because that reads a part of the catalog. Read errors are
    /// ignored: other code reports them.
    fn look_at_trash(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < TRASH_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let Ok((forgotten, containers)) = self.tasks.pool.trash() else {
            return;
        };
        let (now, ahead) = (self.tasks.pool.now(), self.tasks.collecting.ahead());
        // Entries with a time in the future that no run has seen count as due, so that a run sees
        // them soon.
        let since_s = |since: &Discarded| since.reckoned(now, ahead).map_or(0, seconds);
        let now_s = seconds(now);
        let over = containers
            .iter()
            .filter(|c| since_s(&c.since).saturating_add(DAY_S) <= now_s);
        let period_s = GcPolicy::default().trash_period_ns / SECOND_NS;
        let since = forgotten.iter().map(|f| since_s(&f.since)).min();
        self.trash = Trash {
            since_s: containers.iter().map(|c| since_s(&c.since)).min(),
            over_bytes: over.map(|c| c.entry.blob_bytes).sum(),
            purge_s: since.map(|s| s.saturating_add(u64::try_from(period_s).unwrap_or(0))),
        };
    }

    fn collect(&mut self, urgency: Urgency) {
        let tasks = Arc::clone(&self.tasks);
        let Some(collection) = tasks.collecting.begin_by_itself(urgency) else {
            return;
        };
        let ran = self.run_once(&collection, urgency);
        tasks.device.finish_within(Flow::Collect, 0, Duration::MAX);
        let is_complete = matches!(ran, Ok(true));
        collection.end(is_complete);
        self.looked = None;
        match ran {
            Ok(true) => self.said = None,
            Ok(false) => {}
            Err(e) => self.say(e.to_string()),
        }
    }

    /// Makes one run. Returns false if it was stopped.
    fn run_once(&self, collection: &Collection<'_>, urgency: Urgency) -> Result<bool, StoreError> {
        if urgency == Urgency::Full {
            checkpoint_all(&self.tasks.volumes, &self.interrupt);
        }
        let pool = &self.tasks.pool;
        let ahead = self.tasks.collecting.ahead();
        let policy = GcPolicy::of_server(urgency, self.copy_room(urgency), ahead);
        let mut collector = Collector::new(pool, policy, self.lane)?;
        match self.steps(collection, urgency, &mut collector) {
            Ok(true) => Ok(true),
            stopped => {
                collector.give_up(pool);
                stopped
            }
        }
    }

    fn steps(
        &self,
        collection: &Collection<'_>,
        urgency: Urgency,
        collector: &mut Collector,
    ) -> Result<bool, StoreError> {
        let bytes = match urgency {
            Urgency::WhenIdle => STEP_BYTES,
            Urgency::Low | Urgency::Full => STEP_BYTES_URGENT,
        };
        let sizes = StepSizes::scattered(bytes, bytes);
        let host = Beside {
            work: self,
            collection,
            urgency,
            clock: TaskHost::new(None, &self.interrupt),
        };
        self.press(urgency, collector);
        let mut task = Collecting {
            collector,
            pool: &self.tasks.pool,
            volumes: Some(&self.tasks.volumes),
        };
        let ended = run_task(&mut task, &host, sizes, |task, _| {
            let collector = &mut *task.collector;
            let (stage, left_bytes) = (collector.stage(), collector.bytes_to_copy());
            collection.tell(stage, collector.counts(), left_bytes);
            self.press(urgency, collector);
            Ok::<_, StoreError>(ControlFlow::Continue(()))
        })?;
        Ok(ended == RunEnd::Finished)
    }

    /// Before each step: hurries an urgent run, and stops its copies once there is no space.
    fn press(&self, urgency: Urgency, collector: &mut Collector) {
        if urgency > Urgency::WhenIdle {
            // Asks for the largest share that maintenance may have.
            let stored = self.tasks.pool.record().stored_bytes.max(1 << 30);
            let soon = Duration::from_millis(1);
            self.tasks.device.finish_within(Flow::Collect, stored, soon);
        }
        // Writers may have used the space since the run was planned.
        if collector.stage() == GcStage::Copying && self.copy_room(urgency) == Some(0) {
            collector.copy_no_more();
        }
    }

    /// Returns true if the run must end. A run that is not urgent also ends when an urgent one is
    /// needed.
    fn is_to_stop(&self, collection: &Collection<'_>, urgency: Urgency) -> bool {
        let schedule = self.tasks.shares().schedule;
        if self.interrupt.requested() || !schedule.collects || collection.is_to_end() {
            return true;
        }
        let space = self.space();
        let pressure = |s: &maintenance::CollectSchedule| s.pressure(&space);
        let pressed = self.tasks.collecting.schedule(schedule.limits, pressure);
        urgency == Urgency::WhenIdle && pressed.is_some()
    }

    /// Returns how many bytes copies may use now. `None` if it is unknown.
    fn copy_room(&self, urgency: Urgency) -> Option<u64> {
        let limits = self.tasks.shares().schedule.limits;
        limits.copy_room(&self.tasks.pool, &self.tasks.volumes, urgency)
    }

    fn say(&mut self, failure: String) {
        if self.said.as_ref() != Some(&failure) {
            self.program
                .warn(format_args!("gc: cannot free space: {failure}"));
            self.said = Some(failure);
        }
    }
}

/// Host of a run: beside the server's clients, until the run must end.
struct Beside<'a> {
    work: &'a Work,
    collection: &'a Collection<'a>,
    urgency: Urgency,
    clock: TaskHost<'a>,
}

impl Host for Beside<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn is_to_stop(&self) -> bool {
        self.work.is_to_stop(self.collection, self.urgency)
    }

    fn wait_until(&self, until_ns: u64) {
        self.clock.wait_until(until_ns);
    }

    fn ask(&self, flow: Flow, bytes: u64) -> Option<Box<dyn IoGrant + '_>> {
        Some(Box::new(self.work.tasks.device.ask(flow, bytes)))
    }
}
