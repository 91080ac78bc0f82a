//! Runs the threads of one session for commands that wait. Sessions call this.
//!
//! Invariant: reads, changes and flushes have separate lanes, each with its own threads and queue.
//! The window of command numbers limits the queues. Reads of a disconnected initiator are dropped
//! before they begin; changes that have all their data are executed, unless they wait for an older
//! command. A worker's panic ends its connection and no other. Threads start when they are needed,
//! as far as the session's share allows, and end when they have had no work for a while. A task
//! that must wait for older ones ([`crate::scsi::task_set`]) waits in its queue, and younger ones
//! that need not wait pass it.

use crate::answers::{Answered, Segments};
use crate::replies::{Format, Replies};
use crate::scsi::action::{Job, Lane, Span};
use crate::scsi::reservations::{Nexus, Use};
use crate::scsi::task_set::Ticket;
use crate::scsi::unit::Unit;
use crate::sender::{Place, Sender};
use crate::stats::{Counters, Kind, Tally};
use connections::{Gone, IDLE_THREAD_LIMIT, Lease, Share, ThreadShare};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Output memory that each thread keeps between replies, bytes. Larger replies are leased.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Maximum number of threads in the lanes of reads and changes, and in that of flushes.
const THREADS_MAX: [usize; Lane::COUNT] = [16, 16, 2];

/// Reads up to this size need no lease while the connection's thread serves them, bytes.
pub(crate) const SMALL_REPLY_BYTES: u64 = 256 << 10;

/// The work of a worker.
pub(crate) enum Effort {
    /// Send this, as the answer of a command that had to wait for older ones.
    Reply(Vec<u8>),
    Read(Span),
    Job(Job, Vec<u8>),
}

/// A command for a worker.
pub(crate) struct Task {
    pub(crate) unit: Arc<Unit>,
    pub(crate) effort: Effort,
    pub(crate) answered: Answered,
    pub(crate) arrived: Instant,
    /// Memory for its data and its reply, if it is large.
    pub(crate) leases: Vec<Lease>,
    pub(crate) place: Place,
    pub(crate) ticket: Ticket,
}

impl Task {
    fn name(&self) -> (u32, u8) {
        (self.answered.tag, self.unit.number())
    }

    fn lane(&self) -> Lane {
        match &self.effort {
            Effort::Reply(_) | Effort::Read(_) => Lane::Reads,
            Effort::Job(job, _) => job.work.lane(),
        }
    }
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// Tags and units of tasks that a thread has taken and not answered.
    running: Vec<(u32, u8)>,
    /// Number of queued and running tasks.
    in_flight: usize,
    idle: usize,
    threads: usize,
    is_closed: bool,
}

#[derive(Default)]
struct LaneState {
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
    /// Copy of [`Queue::in_flight`] that is read without the lock.
    in_flight: AtomicUsize,
}

/// The session that workers work for.
pub(crate) struct Service {
    pub(crate) nexus: Nexus,
    pub(crate) sender: Arc<Sender>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) segments: Segments,
    pub(crate) format: Format,
    /// Memory for large reads.
    pub(crate) reads: Arc<Share>,
    pub(crate) threads: Arc<ThreadShare>,
}

struct Crew {
    service: Service,
    lanes: [LaneState; Lane::COUNT],
}

/// The threads and their queues.
pub(crate) struct Workers {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
}

impl LaneState {
    fn next(&self) -> Option<Task> {
        let mut queue = self.queue.lock();
        let mut is_idle = false;
        loop {
            let ready = queue.tasks.iter().position(|task| task.ticket.is_ready());
            if let Some(task) = ready.and_then(|at| queue.tasks.remove(at)) {
                queue.running.push(task.name());
                return Some(task);
            }
            if queue.is_closed && queue.tasks.is_empty() {
                return None;
            }
            // One stays, and as many as may be needed for tasks that wait for others.
            if is_idle && queue.tasks.is_empty() && queue.threads > 1 {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let waited = self.work.wait_for(&mut queue, IDLE_THREAD_LIMIT);
            is_idle = waited.timed_out();
            queue.idle -= 1;
        }
    }

    /// Counts tasks that are answered or dropped, and forgets that one was running.
    fn finished(&self, count: usize, name: Option<(u32, u8)>) {
        let mut queue = self.queue.lock();
        queue.in_flight -= count;
        let mut running = queue.running.iter();
        if let Some(at) = running.position(|other| Some(*other) == name) {
            queue.running.swap_remove(at);
        }
        self.in_flight.store(queue.in_flight, Relaxed);
        self.done.notify_all();
    }
}

impl Service {
    /// Leases the memory of a read that has none yet, unless it is aborted.
    pub(crate) fn lease(
        &self,
        mut leases: Vec<Lease>,
        effort: &Effort,
        answered: &Answered,
        ticket: &Ticket,
    ) -> Result<Vec<Lease>, Gone> {
        let bytes = answered.command_bytes.min(answered.expected_bytes);
        let is_large = bytes > OUTPUT_KEPT_BYTES as u64;
        if matches!(effort, Effort::Read(_)) && is_large && leases.is_empty() {
            match self.reads.take_while(bytes, || !ticket.is_over()) {
                None if !ticket.is_over() => return Err(Gone),
                lease => leases.extend(lease),
            }
        }
        Ok(leases)
    }
}

impl Crew {
    /// Wakes all threads: tasks may begin that could not before.
    fn wake(&self) {
        for state in &self.lanes {
            // A thread that has just found nothing is asleep after this.
            drop(state.queue.lock());
            state.work.notify_all();
        }
    }

    fn run(&self, lane: Lane) {
        let service = &self.service;
        let mut replies = Replies::new(OUTPUT_KEPT_BYTES, service.format);
        let state = &self.lanes[lane as usize];
        while let Some(task) = state.next() {
            let _running = Running(service, state, task.name());
            if lane == Lane::Reads && service.sender.client_is_gone() {
                service.counters.abandoned.fetch_add(1, Relaxed);
                continue;
            }
            let Task {
                unit,
                effort,
                answered,
                arrived,
                leases,
                place,
                ticket,
            } = task;
            let Ok(leases) = service.lease(leases, &effort, &answered, &ticket) else {
                service.counters.abandoned.fetch_add(1, Relaxed);
                continue;
            };
            let mut tally = Tally::default();
            match ticket.begin() {
                true => {
                    let task = (&*unit, &effort, &ticket);
                    execute(service, task, answered, &mut replies, &mut tally);
                }
                false => {
                    tally.failed();
                    answered.aborted(&mut replies);
                }
            }
            // It has ended for those that wait for it, however long its initiator takes no answer.
            if !ticket.end() {
                replies.clear();
            }
            // Count before sending: an initiator that has a reply must find it counted.
            service
                .counters
                .add(&mut tally, replies.len(), arrived.elapsed());
            // The reply opens the window.
            drop(place);
            // Only the memory of a read is in use until its reply is sent.
            let leases = match effort {
                Effort::Read(_) => leases,
                Effort::Job(..) | Effort::Reply(_) => vec![],
            };
            for lease in &leases {
                lease.transfer(replies.len() as u64);
            }
            // The connection's thread notices that the initiator disconnected.
            let _ = service.sender.send(&mut replies);
            drop(leases);
        }
    }
}

/// Executes a command that may wait, and appends its answer.
pub(crate) fn execute(
    service: &Service,
    (unit, effort, ticket): (&Unit, &Effort, &Ticket),
    answered: Answered,
    replies: &mut Replies,
    tally: &mut Tally,
) {
    match effort {
        Effort::Reply(data) => {
            tally.done(Kind::Other, 0);
            answered.data(replies, &service.segments, data);
        }
        Effort::Read(span) => match unit.recheck(&service.nexus, Use::Read) {
            Ok(()) => {
                answered.read(replies, &service.segments, unit, *span);
                tally.done(Kind::Read, answered.command_bytes);
            }
            Err(refusal) => {
                tally.failed();
                answered.refuse(replies, refusal, Some(unit));
            }
        },
        Effort::Job(job, data) => match unit.run(&service.nexus, job, data, Some(ticket)) {
            Ok(reply) => {
                tally.job(job, data.len() as u64);
                answer_job(service, answered, reply.unwrap_or_default(), replies);
            }
            Err(refusal) => {
                tally.failed();
                answered.refuse(replies, refusal, Some(unit));
            }
        },
    }
}

fn answer_job(service: &Service, answered: Answered, data: Vec<u8>, replies: &mut Replies) {
    if data.is_empty() {
        return answered.good(replies);
    }
    let answered = Answered {
        command_bytes: data.len() as u64,
        ..answered
    };
    answered.data(replies, &service.segments, &data);
}

/// A running task. Its drop counts it as finished, even after a panic.
struct Running<'a>(&'a Service, &'a LaneState, (u32, u8));

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Self(service, lane, name) = *self;
        if thread::panicking() {
            // Its reply is missing or torn, and the initiator must not wait for it.
            service.sender.drop_now();
        }
        lane.finished(1, Some(name));
    }
}

impl Workers {
    pub(crate) fn new(service: Service) -> Self {
        let tasks = service.nexus.tasks.clone();
        let crew = Arc::new(Crew {
            service,
            lanes: Default::default(),
        });
        let woken = Arc::downgrade(&crew);
        tasks.wake_with(move || {
            if let Some(crew) = woken.upgrade() {
                crew.wake();
            }
        });
        Self {
            crew,
            threads: Vec::new(),
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.crew.service
    }

    /// Returns the number of a lane's tasks that are submitted and not answered yet.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        self.crew.lanes[lane as usize].in_flight.load(Relaxed)
    }

    /// Takes a task over. Returns it if no thread can execute it.
    pub(crate) fn submit(&mut self, task: Task) -> Result<(), Box<Task>> {
        let lane = task.lane();
        let state = &self.crew.lanes[lane as usize];
        let mut queue = state.queue.lock();
        let is_needed =
            queue.idle <= queue.tasks.len() && queue.threads < THREADS_MAX[lane as usize];
        if is_needed && let Some(permit) = self.crew.service.threads.try_take(queue.threads) {
            let crew = self.crew.clone();
            let thread = thread::Builder::new().name("iscsi-worker".to_owned());
            let run = move || {
                let _permit = permit;
                crew.run(lane);
            };
            match thread.spawn(run) {
                Ok(handle) => {
                    // Threads that had no work for a while have ended.
                    self.threads.retain(|thread| !thread.is_finished());
                    self.threads.push(handle);
                    queue.threads += 1;
                }
                Err(_) if queue.threads == 0 => return Err(Box::new(task)),
                Err(_) => {}
            }
        }
        queue.in_flight += 1;
        state.in_flight.store(queue.in_flight, Relaxed);
        queue.tasks.push_back(task);
        drop(queue);
        state.work.notify_one();
        Ok(())
    }

    /// Drops tasks that have not begun and that `is_meant`. Returns their number.
    pub(crate) fn cancel(&self, is_meant: impl Fn(&Task) -> bool) -> usize {
        let mut all = 0;
        for state in &self.crew.lanes {
            let mut queue = state.queue.lock();
            let tasks = std::mem::take(&mut queue.tasks);
            let (dropped, kept): (VecDeque<_>, _) = tasks.into_iter().partition(&is_meant);
            queue.tasks = kept;
            drop(queue);
            state.finished(dropped.len(), None);
            all += dropped.len();
            // Not under the lock of the queue: this wakes workers.
            drop(dropped);
        }
        all
    }

    /// Waits until the tasks that a thread has taken and that `is_meant`, by tag and unit, have
    /// ended and were answered.
    pub(crate) fn wait_for_running(&self, is_meant: impl Fn(u32, u8) -> bool) {
        for state in &self.crew.lanes {
            let mut queue = state.queue.lock();
            while queue
                .running
                .iter()
                .any(|(tag, unit)| is_meant(*tag, *unit))
            {
                state.done.wait(&mut queue);
            }
        }
    }

    /// Drops the tasks that wait for older ones.
    pub(crate) fn cancel_held(&self) {
        self.cancel(|task| !task.ticket.is_ready());
    }

    /// Waits until every submitted task was answered. None may wait for one that is not submitted.
    pub(crate) fn drain(&self) {
        for state in &self.crew.lanes {
            let mut queue = state.queue.lock();
            while queue.in_flight > 0 {
                state.done.wait(&mut queue);
            }
        }
    }

    /// Waits until every submitted task was answered, and ends the threads.
    pub(crate) fn finish(self) {
        for state in &self.crew.lanes {
            state.queue.lock().is_closed = true;
            state.work.notify_all();
        }
        for thread in self.threads {
            // A panic was handled where it happened.
            let _ = thread.join();
        }
    }
}
