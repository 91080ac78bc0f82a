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
use super::task::{self, Duties, ThreadOptions};
use crate::program::Program;
use crate::scrub_notes::{ScrubNotes, unread_words};
use crate::state::{Asking, ServerState, seconds};
use device::StepGrant;
use maintenance::{ScrubNews, Scrubber, StepSizes};
use qos::Flow;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{CheckDepth, LaneOptions, StoreError};
use terminal::interrupt::Interrupt;
use units::Origin;

const OPTIONS: ThreadOptions = ThreadOptions {
    name: "scrub",
    origin: Origin::Scrub,
    sizes: StepSizes::new(4 << 20),
};
/// Maximum wait while there is nothing to do. A start ends it.
const AT_REST: Duration = Duration::from_secs(60);
/// Maximum time between finding damage and recording it in the pool. The end of a pass records it
/// too.
const NOTE_AFTER: Duration = Duration::from_secs(30);
/// Maximum time that a repair keeps an I/O grant.
const GRANT_MAX: Duration = Duration::from_millis(20);
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
    let mut work = Work {
        server: Arc::clone(server),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        lane,
        findings: ScrubNotes::default(),
        unnoted_since: None,
        said: None,
        put_back: 0,
    };
    let slot = &server.tasks.scrub.task;
    if slot.is_left_under_way() {
        work.say_failure(server.tasks.scrub.start(None).err().map(|e| e.to_string()));
    }
    task::start(OPTIONS, &server.tasks, slot, interrupt, work)
}

struct Work {
    server: Arc<ServerState>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    lane: LaneOptions,
    findings: ScrubNotes,
    /// Time when the first unrecorded damage was found.
    unnoted_since: Option<Instant>,
    /// The failure that was reported last.
    said: Option<String>,
    /// Number of containers put back for readers that was reported last.
    put_back: u64,
}

impl Duties for Work {
    type Task = Scrubber;

    fn rest(&mut self) {
        self.put_back();
        self.settle(true);
        self.begin_if_due();
    }

    fn worked(&mut self) {
        self.said = None;
        self.put_back();
        self.settle(false);
    }

    fn news(&mut self, news: ScrubNews) {
        self.findings.add(&news.found);
        self.program.found(&news.found);
        if self.findings.is_unnoted() {
            self.unnoted_since.get_or_insert_with(Instant::now);
        }
        if let Some(unread) = news.unread {
            self.findings.failures += 1;
            self.program.warn(format_args!("{}", unread_words(&unread)));
        }
    }

    /// Records damage, repairs, and reports the affected files and images.
    fn finished(&mut self) {
        self.settle(true);
        self.repair();
        self.report();
    }

    fn failed(&mut self, error: &StoreError) {
        self.say_failure(Some(error.to_string()));
        self.interrupt.wait(FAILED_PAUSE);
    }

    fn unrecorded(&mut self, error: &StoreError) {
        self.say_failure(Some(error.to_string()));
    }

    fn end(&mut self) {
        self.settle(true);
    }
}

impl Work {
    /// Writes containers back that parity restored for readers, and reports their number.
    fn put_back(&mut self) {
        let pool = &self.server.pool;
        pool.health().put_back_restored();
        let restored = pool.health().restored_for_readers();
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
        let shares = self.server.tasks.shares();
        let (pool, scrub) = (&self.server.pool, &self.server.tasks.scrub);
        let due_s = scrub.due_s(pool.now(), pool.config().created, shares.within.scrub_s);
        let due_s = due_s.filter(|_| shares.schedule.scrubs).unwrap_or(u64::MAX);
        let left_s = due_s.saturating_sub(seconds(pool.now()));
        if left_s > 0 {
            let rest = AT_REST.min(Duration::from_secs(left_s));
            scrub.task.wait(rest, || self.interrupt.requested());
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

    fn say_failure(&mut self, failure: Option<String>) {
        if let Some(why) = &failure
            && self.said != failure
        {
            self.program.warn(format_args!("scrub: {why}"));
            self.said = failure;
        }
    }

    /// It waits as long as commands take.
    fn asking(&self) -> Asking<'_> {
        Asking {
            name: "the verification of this server",
            interrupt: &self.interrupt,
            limit: None,
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
        let Ok(pool) = self.server.access.for_writing(&self.asking(), |_| ()) else {
            return;
        };
        let noted = self.findings.note(&pool, self.lane);
        self.unnoted_since = noted.is_err().then(Instant::now);
        self.say_failure(noted.err().map(|e| e.to_string()));
    }

    /// Repairs damaged chunks, old and new, from the replica if there is one.
    fn repair(&mut self) {
        let pool = &self.server.pool;
        let replica = self.server.tasks.scrub.take_replica();
        let Some(replica) = replica.filter(|_| pool.reader().knows_damage()) else {
            return;
        };
        let Ok(grant) = self.server.access.for_writing(&self.asking(), |_| ()) else {
            return;
        };
        let (server, interrupt) = (&self.server, &self.interrupt);
        let mut at_device: Option<(StepGrant<'_>, Instant)> = None;
        let mut between = || {
            if at_device
                .as_ref()
                .is_some_and(|(_, since)| since.elapsed() < GRANT_MAX)
            {
                return;
            }
            at_device = None;
            let grant = server
                .tasks
                .grant(Flow::Scrub, OPTIONS.sizes.grant_bytes, interrupt);
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

    /// Reports the files and images that damage found in this pass reaches.
    fn report(&mut self) {
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
            let path = units::printable::printable(&affected.path);
            format!("{} {of} {path}", affected.snapshot)
        };
        Ok(report.affected.iter().map(name).collect())
    }
}
