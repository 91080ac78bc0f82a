//! The thread that collects space while a server holds the pool, when that is due.
//!
//! Invariant: it takes no turn to write, so that commands never wait for it, and makes way for `gc`; it uses the
//! device as `gc` does, and more of it only while little is free. Writers wait for it only as long as that
//! gives something back. When is decided by `maintenance::CollectSchedule`. Called by `serve`.

use super::background::Background;
use crate::held::{Collection, Held, TaskHost, fold, seconds};
use crate::interrupt::Interrupt;
use crate::program::Program;
use maintenance::{
    Advance, CollectDecision, Collecting, Collector, GcPolicy, GcStage, HeldTurn, Host, PoolSpace,
    StepSizes, Stopped, TaskStep, Urgency, advance,
};
use media::Asker;
use qos::Flow;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Discarded, LaneOptions, StoreError};
use units::Origin;

/// Between two looks at the disk.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two looks at the trash.
const TRASH_EVERY: Duration = Duration::from_secs(30);
/// Bytes of a step while nobody is in a hurry.
const STEP_BYTES: u64 = 256 << 10;
/// ... and when little is free.
const STEP_BYTES_URGENT: u64 = 1 << 20;
const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: u64 = 86_400;

/// Starts the thread. When it ends it lets writers go.
pub fn start(
    held: &Arc<Held>,
    program: &Arc<dyn Program>,
    lane: LaneOptions,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let work = Work {
        held: Arc::clone(held),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        lane,
        trash: Trash::default(),
        looked: None,
        said: None,
    };
    Background::start("reclaim", interrupt, move || work.run(), || {})
}

/// What the trash holds.
#[derive(Clone, Copy, Default)]
struct Trash {
    since_s: Option<u64>,
    over_bytes: u64,
    purge_s: Option<u64>,
}

struct Work {
    held: Arc<Held>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    lane: LaneOptions,
    trash: Trash,
    looked: Option<Instant>,
    /// The failure that was said last.
    said: Option<String>,
}

impl Work {
    fn run(mut self) {
        let _asking = Asker::of(Origin::Collect).begin();
        while !self.interrupt.requested() {
            self.look();
            self.interrupt.wait(LOOK_EVERY);
        }
        self.held.volumes.keep_free(0);
    }

    /// Collects if that is due.
    fn look(&mut self) {
        self.held.pool.keep_reserve();
        let upkeep = self.held.shares().upkeep;
        if !upkeep.collects {
            self.held.volumes.keep_free(0);
            self.held.collecting.expect(None);
            return;
        }
        self.look_at_trash();
        let space = self.space();
        let (keep_free, decision) = self.held.collecting.schedule(upkeep.limits, |schedule| {
            (schedule.keep_free_bytes(&space), schedule.decide(&space))
        });
        self.held.volumes.keep_free(keep_free);
        match decision {
            CollectDecision::Wait(next) => self.held.collecting.expect(Some(next)),
            CollectDecision::Begin(urgency) => self.collect(urgency),
        }
    }

    fn space(&self) -> PoolSpace {
        let pool = &self.held.pool;
        PoolSpace {
            now_s: seconds(pool.now()),
            room: pool.room(),
            journal_bytes: self.held.volumes.journal_usage().bytes_max,
            stored_bytes: pool.record().stored_bytes,
            trashed_s: self.trash.since_s,
            trash_over_bytes: self.trash.over_bytes,
            purge_s: self.trash.purge_s,
        }
    }

    /// Now and then: it reads a part of the catalog. What cannot be read is for others to tell.
    fn look_at_trash(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < TRASH_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let Ok((forgotten, containers)) = self.held.pool.trash() else {
            return;
        };
        let (now, ahead) = (self.held.pool.now(), self.held.collecting.ahead());
        // What no run has seen yet of a time that is not here: one is to see it soon.
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
        let held = Arc::clone(&self.held);
        let Some(collection) = held.collecting.begin_by_itself(urgency) else {
            return;
        };
        let ran = self.run_once(&collection, urgency);
        held.device.finish_within(Flow::Collect, 0, Duration::MAX);
        let is_complete = matches!(ran, Ok(true));
        collection.end(is_complete);
        self.looked = None;
        match ran {
            Ok(true) => self.said = None,
            Ok(false) => {}
            Err(e) => self.say(e.to_string()),
        }
    }

    /// One run. False: it was stopped.
    fn run_once(&self, collection: &Collection<'_>, urgency: Urgency) -> Result<bool, StoreError> {
        if urgency == Urgency::Full {
            fold(&self.held.volumes, &self.interrupt);
        }
        let pool = &self.held.pool;
        let ahead = self.held.collecting.ahead();
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
        loop {
            if urgency > Urgency::WhenIdle {
                // As much as maintenance may have at all.
                let stored = self.held.pool.record().stored_bytes.max(1 << 30);
                let soon = Duration::from_millis(1);
                self.held.device.finish_within(Flow::Collect, stored, soon);
            }
            // Writers may have taken what there was when it was planned.
            if collector.stage() == GcStage::Copying && self.copy_room(urgency) == Some(0) {
                collector.copy_no_more();
            }
            let mut task = Collecting {
                collector,
                pool: &self.held.pool,
                volumes: Some(&self.held.volumes),
            };
            let advanced = advance(&mut task, &host, sizes)?;
            collection.tell(collector.stage(), collector.counts());
            match advanced {
                Advance::Stopped => return Ok(false),
                Advance::Step(TaskStep::Finished) => return Ok(true),
                Advance::Step(_) => {}
            }
        }
    }

    /// A run that nobody is in a hurry for makes way for one that somebody is in a hurry for.
    fn is_to_stop(&self, collection: &Collection<'_>, urgency: Urgency) -> bool {
        let upkeep = self.held.shares().upkeep;
        if self.interrupt.requested() || !upkeep.collects || collection.is_to_end() {
            return true;
        }
        let space = self.space();
        let pressure = |s: &maintenance::CollectSchedule| s.pressure(&space);
        let pressed = self.held.collecting.schedule(upkeep.limits, pressure);
        urgency == Urgency::WhenIdle && pressed.is_some()
    }

    /// Bytes that copies may take now; `None`: nobody knows.
    fn copy_room(&self, urgency: Urgency) -> Option<u64> {
        let limits = self.held.shares().upkeep.limits;
        limits.copy_room(&self.held.pool, &self.held.volumes, urgency)
    }

    fn say(&mut self, failure: String) {
        if self.said.as_ref() != Some(&failure) {
            self.program
                .warn(format_args!("no space was given back: {failure}"));
            self.said = Some(failure);
        }
    }
}

/// Beside a server's clients, as long as the run is wanted.
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

    fn turn(&self, flow: Flow, bytes: u64) -> Result<Option<Box<dyn HeldTurn + '_>>, Stopped> {
        let mut turn = self.work.held.device.ask(flow, bytes);
        loop {
            let is_there = turn.wait(LOOK_EVERY);
            if self.is_to_stop() {
                return Err(Stopped);
            }
            if is_there {
                return Ok(Some(Box::new(turn)));
            }
        }
    }
}
