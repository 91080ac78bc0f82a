//! One run: the web server and the tasks on one machine, in virtual time.
//!
//! The runs call this.
//! Invariant: code of the store runs at once when its time has come. The requests that it makes
//! then wait for the scheduler and the disk, and its caller goes on when they are done.

use super::charging::{Device, RequestOwner};
use super::link::{Answer, Ask, Done, Link};
use super::medium::Charge;
use super::pieces::{AtDevice, Granted};
use super::pool::{Base, CONTEXT, FILES, LOG, LOG_RING_BYTES, Machine};
use super::settings::{FILE_BYTES, LOG_BYTES, Settings};
use super::tasks::Kind;
use crate::disk::{Ns, SECOND};
use crate::maintenance::settings::{Load, Settings as Model};
use crate::maintenance::web::WebServer;
use crate::rooms::machine::failed;
use media::{Random, SeededRandom};
use sim::Seed;
use std::collections::{BTreeMap, VecDeque};
use store::Result;
use volume::{Durability, Volume};
use volumes::{CheckpointStep, VolumeHandle};

/// Maximum size of a write of the web server's, bytes.
const WRITE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a step of a checkpoint.
const CHECKPOINT_BYTES: u64 = 4 << 20;

/// Activity of a task.
#[derive(Clone, Copy, Debug)]
enum TaskActivity {
    /// Its requests are at the device.
    AtDevice,
    /// It waits for a grant, until this time.
    Waits(Ns),
    Asleep(Ns),
    Ended(Done, Ns),
}

struct Task {
    link: Link,
    at_device: AtDevice,
    state: TaskActivity,
}

/// Kind of an operation of the web server's machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OpKind {
    /// A file is read. `is_judged`: it is in one piece, so that its time is a latency that counts.
    Read { is_judged: bool },
    /// Read-ahead, flushes, checkpoints: nobody waits for them.
    Other,
}

/// Requests that follow each other.
struct Op {
    since: Ns,
    charges: VecDeque<Charge>,
    kind: OpKind,
    end: u64,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// True if every task finished in time.
    pub is_complete: bool,
    /// Bytes that maintenance read and wrote at the disk.
    pub maintenance_bytes: u64,
    /// Bytes that its work would have used with nothing in memory.
    pub work_bytes: u64,
    /// When the last task ended, from the beginning of maintenance.
    pub maintenance_time: Ns,
    /// Disk time of the web server's requests.
    pub web_busy: Ns,
    /// Its requests.
    pub web_served: u64,
    /// Of its reads of files in one piece that needed the disk: when they came, from the beginning
    /// of maintenance, and how long they took.
    pub latencies: Vec<(Ns, Ns)>,
}

impl Outcome {
    /// Returns the share of I/O that the work did not need.
    pub fn saved(&self) -> f64 {
        (1.0 - self.maintenance_bytes as f64 / self.work_bytes.max(1) as f64).max(0.0)
    }

    /// Returns the 99th percentile of the latencies of requests that came in this time.
    pub fn p99(&self, until: Ns) -> Option<Ns> {
        let came = self.latencies.iter().filter(|(came, _)| *came < until);
        let mut all: Vec<Ns> = came.map(|(_, latency)| *latency).collect();
        all.sort_unstable();
        all.get(all.len() * 99 / 100).copied()
    }
}

/// The world. See the module's head.
pub struct World<'a> {
    settings: Settings,
    base: &'a Base,
    machine: Machine,
    files: VolumeHandle,
    log: VolumeHandle,
    log_at: u64,
    device: Device,
    web: WebServer,
    ops: BTreeMap<u64, Op>,
    next_op: u64,
    next_write_back: Ns,
    tasks: Vec<Task>,
    now: Ns,
    began: Ns,
    reads_waiting: u64,
    noise: SeededRandom,
    buffer: Vec<u8>,
    outcome: Outcome,
}

impl<'a> World<'a> {
    /// `busy` is the mean disk time of a web server's request.
    pub fn new(settings: Settings, base: &'a Base, load: Load, busy: Ns) -> Result<Self> {
        let machine = base.machine(&settings)?;
        let volume = |name: &str| {
            let missing = || store::StoreError::new(store::StoreErrorKind::NotFound, "volume");
            machine.volumes.volume(name).ok_or_else(missing)
        };
        let (files, log) = (volume(FILES)?, volume(LOG)?);
        let seed = Seed::new(settings.seed).part(4);
        Ok(Self {
            files,
            log,
            log_at: 0,
            device: Device::new(settings.disk()),
            web: WebServer::new(load, &base.files, busy, seed),
            ops: BTreeMap::new(),
            next_op: 0,
            next_write_back: Model::PUBLISHED.write_back,
            tasks: Vec::new(),
            now: 0,
            began: 0,
            reads_waiting: 0,
            noise: SeededRandom::new(settings.seed + 77),
            buffer: vec![0; FILE_BYTES as usize],
            outcome: Outcome::default(),
            settings,
            base,
            machine,
        })
    }

    /// Runs a whole experiment: warm-up, then maintenance.
    pub fn experiment(mut self, kinds: &[Kind], has_events: bool) -> Result<Outcome> {
        self.advance(self.settings.warm_up)?;
        self.forget();
        for (nth, kind) in kinds.iter().enumerate() {
            self.tasks.push(Task {
                link: kind.start(&self.machine, &self.base.snapshot, has_events),
                at_device: AtDevice::new(nth, kind.flow()),
                state: TaskActivity::AtDevice,
            });
        }
        (0..self.tasks.len()).for_each(|nth| self.resume(nth, false));
        let end = self.began + self.settings.run();
        self.advance(end)?;
        for nth in 0..self.tasks.len() {
            if !matches!(self.task(nth), Some(TaskActivity::Ended(..))) {
                self.resume(nth, true);
            }
        }
        self.outcome.web_busy = self.device.users_busy;
        self.outcome.is_complete = true;
        for task in &self.tasks {
            self.outcome.maintenance_bytes += task.at_device.bytes;
            let TaskActivity::Ended(done, at) = task.state else {
                continue;
            };
            if done.has_failed {
                let why = "a task of the experiment failed";
                return Err(store::StoreError::new(store::StoreErrorKind::Invalid, why));
            }
            self.outcome.work_bytes += done.work_bytes;
            self.outcome.is_complete &= done.is_complete && at < end;
            let time = at - self.began;
            self.outcome.maintenance_time = self.outcome.maintenance_time.max(time);
        }
        Ok(std::mem::take(&mut self.outcome))
    }

    /// Returns the disk time of a web server's request when requests follow each other without a
    /// pause.
    pub fn web_cost(mut self) -> Result<Ns> {
        self.advance(self.settings.warm_up)?;
        self.forget();
        self.advance(self.began + 6 * SECOND)?;
        Ok(self.device.users_busy / self.outcome.web_served.max(1))
    }

    /// Forgets the warm-up.
    fn forget(&mut self) {
        self.began = self.now;
        self.outcome = Outcome::default();
        self.device.users_busy = 0;
    }

    fn task(&self, nth: usize) -> Option<TaskActivity> {
        self.tasks.get(nth).map(|task| task.state)
    }

    fn advance(&mut self, until: Ns) -> Result<()> {
        while self.now < until {
            self.complete();
            self.arrive()?;
            self.wake();
            while let Some((nth, grant)) = self.device.hand_out(self.now) {
                self.granted(nth, grant);
            }
            self.device.start(self.now);
            self.now = self.next_event().min(until);
        }
        Ok(())
    }

    fn next_event(&self) -> Ns {
        let tasks = self.tasks.iter().flat_map(|task| {
            let sleeps = match task.state {
                TaskActivity::Asleep(until) | TaskActivity::Waits(until) => Some(until),
                TaskActivity::AtDevice | TaskActivity::Ended(..) => None,
            };
            [sleeps, task.at_device.waits_until()]
        });
        let others = [
            self.device.next_event(self.now),
            self.web.next,
            Some(self.next_write_back),
        ];
        // An event that is due and could not happen yet waits for something else.
        let times = tasks.chain(others).flatten().filter(|at| *at > self.now);
        times.min().unwrap_or(Ns::MAX)
    }

    fn complete(&mut self) {
        match self.device.complete(self.now) {
            None => {}
            Some((RequestOwner::User(op), request)) => {
                if let Some(op) = self.ops.get_mut(&op) {
                    op.end = request.address + request.bytes;
                }
                self.next_of(op);
            }
            Some((RequestOwner::Task(nth), _)) => {
                let Some(task) = self.tasks.get_mut(nth) else {
                    return;
                };
                task.at_device.ended(&mut self.device, self.now);
                if !task.at_device.begin(&mut self.device, self.now) {
                    self.resume(nth, false);
                }
            }
        }
    }

    fn granted(&mut self, nth: usize, grant: qos::Grant) {
        let Some(task) = self.tasks.get_mut(nth) else {
            return;
        };
        match task.at_device.granted(grant, self.now) {
            Granted::Rest => drop(task.at_device.begin(&mut self.device, self.now)),
            Granted::Step if matches!(task.state, TaskActivity::Waits(_)) => {
                self.resume(nth, false)
            }
            // It does what is in memory, and asks for the grant afterwards.
            Granted::Step => {}
        }
    }

    fn wake(&mut self) {
        for nth in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(nth) else {
                continue;
            };
            task.at_device.force(&mut self.device, self.now);
            if matches!(task.state, TaskActivity::Asleep(until) | TaskActivity::Waits(until) if until <= self.now)
            {
                self.resume(nth, false);
            }
        }
    }

    /// Lets a task run until it waits for something.
    fn resume(&mut self, nth: usize, stops: bool) {
        let now = self.now;
        let Some(task) = self.tasks.get_mut(nth) else {
            return;
        };
        let mut answer = Answer {
            now,
            goes_on: false,
            is_granted: task.at_device.has_grant(),
            stops,
        };
        task.state = loop {
            let ask = task.link.resume(answer);
            answer.goes_on = false;
            match ask {
                Some(Ask::Grant { bytes }) => task.at_device.ask(&mut self.device, bytes, now),
                Some(Ask::Wait { until }) => {
                    answer.is_granted = task.at_device.has_grant();
                    if !answer.is_granted {
                        break TaskActivity::Waits(until.max(now + 1));
                    }
                }
                Some(Ask::Requests(charges)) => {
                    task.at_device.add(charges);
                    task.at_device.begin(&mut self.device, now);
                    break TaskActivity::AtDevice;
                }
                Some(Ask::GoesOn) => {
                    answer.goes_on = task.at_device.goes_on(&self.device, now);
                }
                Some(Ask::Leave) => task.at_device.leave(&mut self.device, now),
                Some(Ask::Sleep { until }) => break TaskActivity::Asleep(until.max(now + 1)),
                Some(Ask::Ended(done)) => break TaskActivity::Ended(done, now),
                None => {
                    let done = Done {
                        has_failed: true,
                        ..Done::default()
                    };
                    break TaskActivity::Ended(done, now);
                }
            }
        };
    }

    fn arrive(&mut self) -> Result<()> {
        if self.next_write_back <= self.now {
            self.next_write_back += Model::PUBLISHED.write_back;
            self.machine.volumes.flush()?;
            self.begin_op(self.now, OpKind::Other);
        }
        while let Some(since) = self.web.next.filter(|next| *next <= self.now) {
            if self.web.is_saturating() && self.reads_waiting > 0 {
                break;
            }
            let file = self.web.pick(&self.base.files);
            self.web.plan(since.max(self.now));
            let at = self.base.files.address(file);
            self.files
                .read(CONTEXT, at, &mut self.buffer)
                .map_err(failed)?;
            self.outcome.web_served += 1;
            let is_judged = !self.base.files.is_fragmented(file);
            if !self.begin_op(since, OpKind::Read { is_judged }) {
                self.web.hit(self.now);
            }
            while self.machine.volumes.fetch_step() {}
            self.begin_op(self.now, OpKind::Other);
            self.append()?;
        }
        Ok(())
    }

    /// Appends to the log, and checkpoints as the server's thread does.
    fn append(&mut self) -> Result<()> {
        let mut line = vec![0; LOG_BYTES as usize];
        self.noise.fill(&mut line);
        let written = self
            .log
            .write(CONTEXT, self.log_at, &line, Durability::Volatile);
        written.map_err(failed)?;
        self.log_at = (self.log_at + LOG_BYTES) % LOG_RING_BYTES;
        let volumes = &self.machine.volumes;
        let mut is_under_way = false;
        while volumes.wants_checkpoint(is_under_way) {
            is_under_way = true;
            if volumes.step(CHECKPOINT_BYTES)? == CheckpointStep::Idle {
                break;
            }
        }
        self.begin_op(self.now, OpKind::Other);
        Ok(())
    }

    /// Begins an operation with the requests of the code that has just run. Returns false if there
    /// are none.
    fn begin_op(&mut self, since: Ns, kind: OpKind) -> bool {
        let mut charges: VecDeque<Charge> = VecDeque::new();
        for mut charge in self.machine.medium.take() {
            if charges.back_mut().is_some_and(|last| last.extend(&charge)) {
                continue;
            }
            let mut left = charge.request.bytes;
            while left > 0 {
                charge.request.bytes = match charge.request.is_write {
                    true => left.min(WRITE_BYTES_MAX),
                    false => left,
                };
                charges.push_back(charge);
                left -= charge.request.bytes;
                charge.request.address += charge.request.bytes;
            }
        }
        if charges.is_empty() {
            return false;
        }
        self.next_op += 1;
        self.reads_waiting += u64::from(kind != OpKind::Other);
        let op = Op {
            since,
            charges,
            kind,
            end: u64::MAX,
        };
        self.ops.insert(self.next_op, op);
        self.next_of(self.next_op);
        true
    }

    /// Sends the next request of an operation, or ends it.
    fn next_of(&mut self, number: u64) {
        let Some(op) = self.ops.get_mut(&number) else {
            return;
        };
        if let Some(Charge { request, passes }) = op.charges.pop_front() {
            let is_sequential = op.end == request.address;
            match passes {
                true => self.device.pass(RequestOwner::User(number), request),
                false => self.device.offer(number, request, is_sequential, self.now),
            }
        } else if let Some(op) = self.ops.remove(&number)
            && let OpKind::Read { is_judged } = op.kind
        {
            self.reads_waiting -= 1;
            if is_judged && let Some(came) = op.since.checked_sub(self.began) {
                self.outcome.latencies.push((came, self.now - op.since));
            }
        }
    }
}
