//! Runs the threads of one connection for requests that wait. Sessions call this.
//!
//! Invariant: reads, changes and flushes have separate lanes, each with its own threads and queue.
//! Writes that wait for space therefore stop neither reads nor flushes. In each lane at most
//! [`IN_FLIGHT_MAX`] requests and [`IN_FLIGHT_BYTES_MAX`] bytes (or one request) are in flight. A
//! session that submits more waits, so its client does.
//! Reads of a disconnected client are dropped before they begin, but for at most [`TOGETHER_MAX`]
//! announced ones. Submitted changes and flushes are executed. With announced reads the device has
//! begun: few threads execute them, one after the other, and send their replies together. A reply
//! does not wait for a device that is slow. A worker's panic ends its connection and no other.
//! Threads start when they are needed, as far as the connection's share allows, and end when they
//! have had no work for a while.

use crate::command::Export;
use crate::stats::{Counters, Tally};
use crate::wire::requests::{Command, Request};
use connections::{IDLE_THREAD_LIMIT, Lease, Output, Payload, ThreadShare, Writer};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Output memory that each thread keeps between replies, bytes.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Maximum number of a lane's requests in flight: twice the maximum of the Linux client.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum size of their payloads and replies, bytes.
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;

/// Number of announced reads that one thread executes before it sends their replies. Waking a
/// thread and sending cost more than such a read.
const TOGETHER_MAX: usize = 8;
/// A read that took longer waited for the device: the next one may too, and no reply waits for it.
const TOGETHER_LIMIT: Duration = Duration::from_micros(200);
/// A device that lets an announced read wait for longer serves few at a time.
const SLOW_LIMIT: Duration = Duration::from_millis(1);

/// A job that waits for so long is executed by the watching thread.
const WATCH_PERIOD: Duration = Duration::from_millis(5);
/// Time without announced reads after which no thread watches.
const WATCH_LIMIT: Duration = Duration::from_millis(100);

/// Class of requests that may wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Reads and requests for extents.
    Reads,
    /// Writes, zeroes and trims.
    Changes,
    /// Flushes. They cover only acknowledged writes, so they wait for no write in flight.
    Flushes,
}

impl Lane {
    const COUNT: usize = 3;

    /// Returns the lane of the command with this number.
    pub(crate) fn of(command: u16) -> Self {
        match Command::from_number(command) {
            Some(Command::Write | Command::Trim | Command::WriteZeroes) => Self::Changes,
            Some(Command::Flush) => Self::Flushes,
            Some(Command::Read | Command::BlockStatus | Command::Cache | Command::Disconnect)
            | None => Self::Reads,
        }
    }

    fn threads_max(self) -> usize {
        match self {
            Self::Reads | Self::Changes => 16,
            Self::Flushes => 2,
        }
    }
}

/// A request for a worker.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) payload: Payload,
    pub(crate) arrived: Instant,
    /// Lease for its payload and its reply.
    pub(crate) lease: Lease,
    pub(crate) cost_bytes: u64,
    /// A read with which the device has begun: it costs a worker little more than waiting for it.
    pub(crate) is_announced: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Number of queued and running requests.
    in_flight: usize,
    bytes: u64,
    idle: usize,
    threads: usize,
    /// Threads that execute announced reads, each several one after the other.
    together: usize,
    /// Threads that were woken or started for announced reads and have not come yet.
    coming: usize,
    /// When the last announced read was begun.
    announced_at: Option<Instant>,
    /// A thread looks now and then whether jobs wait for one that hangs.
    is_watched: bool,
    closed: bool,
}

#[derive(Default)]
struct LaneState {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Where the watching thread waits.
    watch: Condvar,
    room: Condvar,
    /// Copy of [`Queue::in_flight`] that is read without the lock.
    in_flight: AtomicUsize,
    /// The last announced read waited for long: threads wait for such reads side by side.
    is_slow: AtomicBool,
}

struct Shared {
    export: Arc<Export>,
    writer: Arc<Writer>,
    counters: Arc<Counters>,
    lanes: [LaneState; Lane::COUNT],
}

/// The threads and their queues.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    share: Arc<ThreadShare>,
    threads: Vec<JoinHandle<()>>,
    /// Number of threads that execute announced reads while the device is quick.
    together_threads: usize,
}

impl LaneState {
    /// Returns true if a job needs a thread of its own. Otherwise one that executes announced
    /// reads, or was woken for one, comes to it soon. At most `together` do while the device is
    /// quick.
    fn needs_thread(&self, queue: &Queue, job: &Job, together: usize) -> bool {
        !job.is_announced
            || self.is_slow.load(Relaxed)
            || queue.together + queue.coming < together
                && queue.jobs.len().is_multiple_of(TOGETHER_MAX)
    }

    /// Returns the next job if it is an announced read.
    fn next_announced(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        queue.jobs.pop_front_if(|job| job.is_announced)
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        let (mut is_idle, mut least) = (false, Duration::ZERO);
        loop {
            let is_closed = queue.closed;
            let is_due = |job: &Job| is_closed || job.arrived.elapsed() >= least;
            if let Some(job) = queue.jobs.pop_front_if(|job| is_due(job)) {
                queue.took(&job);
                return Some(job);
            }
            if queue.jobs.is_empty() {
                // Others have executed the jobs for which threads come.
                queue.coming = 0;
            }
            if queue.closed {
                return None;
            }
            if queue.watches() {
                queue.is_watched = true;
                let waited = self.watch.wait_for(&mut queue, WATCH_PERIOD);
                queue.is_watched = false;
                least = if waited.timed_out() {
                    WATCH_PERIOD
                } else {
                    Duration::ZERO
                };
                continue;
            }
            if is_idle && queue.threads > 1 {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let waited = self.work.wait_for(&mut queue, IDLE_THREAD_LIMIT);
            queue.idle -= 1;
            (is_idle, least) = (waited.timed_out(), Duration::ZERO);
        }
    }

    /// Wakes a thread for a new job.
    fn wake_one(&self, is_one_idle: bool) {
        match is_one_idle {
            true => self.work.notify_one(),
            false => self.watch.notify_one(),
        };
    }
}

impl Queue {
    /// Notes that a thread executes a job.
    fn took(&mut self, job: &Job) {
        if job.is_announced {
            self.together += 1;
            self.coming = self.coming.saturating_sub(1);
            self.announced_at = Some(job.arrived);
        }
    }

    /// Returns true if a thread without work must watch: announced reads may wait for one that
    /// hangs, and no other job may come that would wake a thread.
    fn watches(&self) -> bool {
        let is_recent = |at: Instant| at.elapsed() < WATCH_LIMIT;
        let may_hang = !self.jobs.is_empty() || self.announced_at.is_some_and(is_recent);
        may_hang && !self.is_watched
    }

    fn has_room(&self, cost_bytes: u64) -> bool {
        let bytes = self.bytes.saturating_add(cost_bytes);
        self.in_flight == 0 || (self.in_flight < IN_FLIGHT_MAX && bytes <= IN_FLIGHT_BYTES_MAX)
    }
}

impl Shared {
    fn lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[lane as usize]
    }

    fn run(&self, kind: Lane) {
        let mut out = Output::new(OUTPUT_KEPT_BYTES);
        let lane = self.lane(kind);
        while let Some(job) = lane.next() {
            let mut running = Running::new(self, lane);
            if kind == Lane::Reads && self.writer.client_is_gone() {
                running.begin(&job);
                self.counters.abandoned.fetch_add(1, Relaxed);
                continue;
            }
            let mut leases = Vec::new();
            let mut next = Some(job);
            while let Some(job) = next.take() {
                running.begin(&job);
                let (begun, is_announced) = (Instant::now(), job.is_announced);
                leases.push(self.execute(job, &mut out));
                if is_announced {
                    let took = begun.elapsed();
                    lane.is_slow.store(took > SLOW_LIMIT, Relaxed);
                    let may_more = running.jobs < TOGETHER_MAX && took < TOGETHER_LIMIT;
                    next = may_more.then(|| lane.next_announced()).flatten();
                }
            }
            // The connection's thread notices that the client disconnected.
            let _ = self.writer.send(out.as_bytes());
            out.clear();
            drop(leases);
        }
    }

    /// Executes a job. Returns the lease for its reply.
    fn execute(&self, job: Job, out: &mut Output) -> Lease {
        let mut tally = Tally::default();
        let payload = job.payload.as_bytes();
        let before = out.len();
        self.export
            .execute(&job.request, payload, true, out, &mut tally);
        let bytes = out.len() - before;
        // Count before sending: a client that has a reply must find it counted.
        self.counters.add(&mut tally, bytes, job.arrived.elapsed());
        job.lease.transfer(bytes as u64);
        job.lease
    }
}

/// Running jobs of one thread. Its drop returns the permits, even after a panic.
struct Running<'a> {
    shared: &'a Shared,
    lane: &'a LaneState,
    jobs: usize,
    cost_bytes: u64,
    /// The first job is an announced read, and so are all others.
    are_announced: bool,
}

impl<'a> Running<'a> {
    fn new(shared: &'a Shared, lane: &'a LaneState) -> Self {
        Self {
            shared,
            lane,
            jobs: 0,
            cost_bytes: 0,
            are_announced: false,
        }
    }

    fn begin(&mut self, job: &Job) {
        self.jobs += 1;
        self.are_announced = job.is_announced;
        self.cost_bytes = self.cost_bytes.saturating_add(job.cost_bytes);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // A reply is missing or torn, and the client must not wait for it.
            self.shared.writer.drop_now();
        }
        let mut queue = self.lane.queue.lock();
        queue.bytes = queue.bytes.saturating_sub(self.cost_bytes);
        queue.in_flight = queue.in_flight.saturating_sub(self.jobs);
        if self.are_announced {
            queue.together = queue.together.saturating_sub(1);
        }
        self.lane.in_flight.store(queue.in_flight, Relaxed);
        self.lane.room.notify_all();
    }
}

impl Workers {
    pub(crate) fn new(
        export: Arc<Export>,
        writer: Arc<Writer>,
        counters: Arc<Counters>,
        share: Arc<ThreadShare>,
    ) -> Self {
        let shared = Shared {
            export,
            writer,
            counters,
            lanes: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
            together_threads: share.processors().div_ceil(2),
            share,
            threads: Vec::new(),
        }
    }

    /// Returns the number of a lane's requests that are submitted and not answered yet.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        self.shared.lane(lane).in_flight.load(Relaxed)
    }

    /// Returns true if [`Workers::submit`] would not wait.
    pub(crate) fn has_room(&self, lane: Lane, cost_bytes: u64) -> bool {
        self.shared.lane(lane).queue.lock().has_room(cost_bytes)
    }

    /// Takes a request over. Waits while too many of its lane are in flight. Returns it if no
    /// thread can execute it.
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Box<Job>> {
        let kind = Lane::of(job.request.command);
        let lane = self.shared.lane(kind);
        let mut queue = lane.queue.lock();
        while !queue.has_room(job.cost_bytes) {
            lane.room.wait(&mut queue);
        }
        let wakes = lane.needs_thread(&queue, &job, self.together_threads);
        let needs_watch = job.is_announced && !queue.is_watched;
        let least = if job.is_announced { 2 } else { 1 };
        let are_few = wakes && queue.idle <= queue.jobs.len() || queue.threads < least;
        let is_needed = are_few && queue.threads < kind.threads_max();
        if is_needed && let Some(permit) = self.share.try_take(queue.threads) {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("nbd-worker".to_owned());
            let run = move || {
                let _permit = permit;
                shared.run(kind);
            };
            match thread.spawn(run) {
                Ok(handle) => {
                    // Threads that had no work for a while have ended.
                    self.threads.retain(|thread| !thread.is_finished());
                    self.threads.push(handle);
                    queue.threads += 1;
                }
                Err(_) if queue.threads == 0 => return Err(Box::new(job)),
                Err(_) => {}
            }
        }
        queue.coming += usize::from(wakes && job.is_announced);
        queue.bytes = queue.bytes.saturating_add(job.cost_bytes);
        queue.in_flight += 1;
        lane.in_flight.store(queue.in_flight, Relaxed);
        queue.jobs.push_back(job);
        let is_one_idle = queue.idle > 0;
        drop(queue);
        if wakes {
            lane.wake_one(is_one_idle);
        }
        if needs_watch {
            lane.work.notify_one();
        }
        Ok(())
    }

    /// Waits until every submitted request was answered.
    pub(crate) fn finish(self) {
        for lane in &self.shared.lanes {
            lane.queue.lock().closed = true;
            lane.work.notify_all();
            lane.watch.notify_all();
        }
        for thread in self.threads {
            // A panic was handled where it happened.
            let _ = thread.join();
        }
    }
}
