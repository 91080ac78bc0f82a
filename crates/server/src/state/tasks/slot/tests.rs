//! A new task is one file that says what its items are: this one is run, paused, resumed,
//! cancelled, shown and left to the next server by the code that does so for scrub and
//! defragmentation.

use super::*;
use crate::state::ServerState;
use crate::threads::task::{Duties, ThreadOptions, start};
use maintenance::{StepSizes, TaskBytes};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use store::StoreErrorKind;
use terminal::interrupt::Interrupt;
use units::Origin;

const ITEMS: u64 = 100;

/// The task. An item is a number.
struct Counter {
    next: u64,
    limit: Option<u64>,
    /// Items below this one may be counted.
    until: Arc<AtomicU64>,
    fails_at: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Counted {
    phase: TaskPhase,
    next: u64,
    limit: Option<u64>,
}

/// The record in the pool. One test uses it.
static RECORD: Mutex<Option<Counted>> = Mutex::new(None);

impl MaintenanceTask for Counter {
    /// Every tenth number.
    type News = u64;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Scrub
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        _: u64,
        access: Access,
    ) -> Result<TaskStep<u64>, StoreError> {
        if self.fails_at == Some(self.next) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "no such number"));
        }
        Ok(match (access, self.next) {
            (Access::Memory, _) => TaskStep::NeedsDevice,
            (_, ITEMS) => TaskStep::Finished,
            (_, next) if next >= self.until.load(SeqCst) => TaskStep::Waiting {
                until_ns: now_ns + 100_000,
            },
            (_, next) => {
                self.next += 1;
                match next % 10 {
                    0 => TaskStep::News(next),
                    _ => TaskStep::Worked { bytes: 1 },
                }
            }
        })
    }
}

impl ControlledTask for Counter {
    type Report = Counted;

    fn report(&self, phase: TaskPhase) -> Counted {
        Counted {
            phase,
            next: self.next,
            limit: self.limit,
        }
    }

    fn limit(&mut self, bytes_per_s: Option<u64>) {
        self.limit = bytes_per_s;
    }

    fn wants_record(&self) -> bool {
        self.next.is_multiple_of(7)
    }

    fn record(&mut self) -> Result<(), StoreError> {
        self.stop(match self.next {
            ITEMS => TaskPhase::AtRest,
            _ => TaskPhase::UnderWay,
        })
    }

    fn stop(&mut self, phase: TaskPhase) -> Result<(), StoreError> {
        *RECORD.lock() = Some(self.report(phase));
        Ok(())
    }

    fn last_recorded(_: &Pool) -> Option<Counted> {
        RECORD.lock().clone()
    }

    fn stop_recorded(_: &Pool, phase: TaskPhase) -> Result<Option<Counted>, StoreError> {
        let mut record = RECORD.lock();
        let unfinished = record.as_mut().filter(|r| r.phase != TaskPhase::AtRest);
        Ok(unfinished.map(|record| {
            record.phase = phase;
            record.clone()
        }))
    }
}

impl TaskReport for Counted {
    const NAME: &'static str = "toy";
    const DOING: &'static str = "counting";
    const FLOW: Flow = Flow::Scrub;

    fn phase(&self) -> TaskPhase {
        self.phase
    }

    fn began(&self) -> UnixNanos {
        UnixNanos(7)
    }

    fn progress(&self) -> f64 {
        match self.phase {
            TaskPhase::AtRest => 0.0,
            _ => self.next as f64 / ITEMS as f64,
        }
    }

    fn totals(&self) -> TaskTotals {
        TaskTotals {
            bytes: TaskBytes::of(self.next, 0),
            damaged: 0,
        }
    }

    fn left_bytes(&self) -> u64 {
        ITEMS - self.next
    }
}

/// The thread's duties: they record their calls.
struct Noting {
    slot: Arc<TaskSlot<Counter>>,
    interrupt: Interrupt,
    noted: Arc<Mutex<Vec<String>>>,
}

impl Duties for Noting {
    type Task = Counter;

    fn rest(&mut self) {
        let at_most = Duration::from_secs(60);
        self.slot.wait(at_most, || self.interrupt.requested());
    }

    fn news(&mut self, news: u64) {
        self.noted.lock().push(format!("{news}"));
    }

    fn finished(&mut self) {
        self.noted.lock().push("finished".to_owned());
    }

    fn failed(&mut self, error: &StoreError) {
        self.noted.lock().push(format!("failed: {error}"));
    }

    fn unrecorded(&mut self, error: &StoreError) {
        self.noted.lock().push(format!("unrecorded: {error}"));
    }

    fn end(&mut self) {
        self.noted.lock().push("end".to_owned());
    }
}

struct World {
    server: Arc<ServerState>,
    slot: Arc<TaskSlot<Counter>>,
    until: Arc<AtomicU64>,
}

impl World {
    fn counter(&self, from: u64) -> Counter {
        Counter {
            next: from,
            limit: None,
            until: Arc::clone(&self.until),
            fails_at: None,
        }
    }

    fn run(&self) -> TaskStatus<Counted> {
        self.slot.status().expect("a run")
    }

    /// Waits until the run satisfies this.
    fn wait(&self, is_there: impl Fn(&TaskStatus<Counted>) -> bool) {
        while !is_there(&self.run()) {
            std::thread::yield_now();
        }
    }

    fn shown(&self) -> (bool, Option<f64>, u64) {
        let run = self.run().run;
        let reading = self
            .server
            .tasks
            .reading(Some(&run), self.slot.totals().bytes);
        assert_eq!(reading.name, "toy");
        (reading.is_under_way, reading.progress, reading.bytes.disk)
    }
}

#[test]
fn a_new_task_is_its_items() {
    let top = tempfile::tempdir().unwrap();
    let server = Arc::new(crate::metrics::tests::server_state(top.path()));
    let world = World {
        slot: Arc::new(TaskSlot::of(&server.pool)),
        server,
        until: Arc::default(),
    };
    let (slot, until) = (&world.slot, &world.until);
    assert!(slot.status().is_none());
    let interrupt = Interrupt::of_command().unwrap();
    let noted = Arc::new(Mutex::default());
    let duties = Noting {
        slot: Arc::clone(slot),
        interrupt: interrupt.clone(),
        noted: Arc::clone(&noted),
    };
    let options = ThreadOptions {
        name: "toy",
        origin: Origin::Scrub,
        sizes: StepSizes::new(1),
    };
    let thread = start(options, &world.server.tasks, slot, interrupt, duties).unwrap();

    // Run, beside a second request.
    until.store(30, SeqCst);
    slot.begin(world.counter(0)).unwrap();
    let refused = slot.begin(world.counter(0)).unwrap_err();
    let words = "the server is counting already (see quintet toy status)";
    assert_eq!(refused.to_string(), words);
    world.wait(|status| status.run.next == 30);
    assert_eq!(world.shown(), (true, Some(0.3), 30));
    assert_eq!(world.run().run.left().unwrap().bytes, 70);

    // Pause: it is recorded, and no step comes.
    assert!(slot.stop(TaskPhase::Paused).unwrap());
    until.store(60, SeqCst);
    assert_eq!(RECORD.lock().clone(), Some(world.run().run));
    assert_eq!(world.shown(), (false, Some(0.3), 30));
    assert_eq!(world.run().run.left(), None);

    // Resume from the record, then change the limit of the run in progress.
    let take_up = || Ok(Some(world.counter(RECORD.lock().as_ref().unwrap().next)));
    assert!(slot.resume(Some(5), take_up).unwrap());
    world.wait(|status| status.run.next == 60 && status.run.limit == Some(5));
    assert!(slot.resume(Some(6), || panic!("it runs")).unwrap());
    assert_eq!(world.run().run.limit, Some(6));

    // Cancel.
    assert!(slot.stop(TaskPhase::AtRest).unwrap());
    assert_eq!(world.shown(), (false, Some(0.0), 60));
    assert!(!slot.stop(TaskPhase::Paused).unwrap(), "nothing is left");
    assert!(!slot.resume(None, || Ok(None)).unwrap());

    // To the end.
    until.store(ITEMS, SeqCst);
    slot.begin(world.counter(0)).unwrap();
    world.wait(|status| status.run.phase == TaskPhase::AtRest);
    assert_eq!(world.shown(), (false, Some(0.0), 60 + ITEMS));

    // A failure pauses it at its last record.
    let failing = Counter {
        fails_at: Some(45),
        ..world.counter(0)
    };
    slot.begin(failing).unwrap();
    world.wait(
        |status| matches!(&status.outcome, RunOutcome::Failed(why) if why.contains("number")),
    );
    let failed = world.run().run;
    assert_eq!((failed.phase, failed.next), (TaskPhase::Paused, 42));

    // The server ends: the next one resumes the run.
    until.store(50, SeqCst);
    slot.begin(world.counter(42)).unwrap();
    world.wait(|status| status.run.next == 50);
    drop(thread);
    assert!(matches!(world.run().outcome, RunOutcome::LeftBehind));
    let late = slot.begin(world.counter(0)).unwrap_err();
    assert!(matches!(late, TaskError::Ending));
    let next = TaskSlot::<Counter>::of(&world.server.pool);
    assert!(next.is_left_under_way());
    assert_eq!(next.status().unwrap().run.next, 50);

    let tens = |from: u64, until| (from..until).step_by(10).map(|n| n.to_string());
    let mut expected: Vec<String> = tens(0, 60).chain(tens(0, ITEMS)).collect();
    expected.push("finished".to_owned());
    expected.extend(tens(0, 45));
    assert_eq!(noted.lock()[..expected.len()], expected);
    assert!(noted.lock()[expected.len()].starts_with("failed: "));
    assert_eq!(noted.lock().last().unwrap(), "end");
}
