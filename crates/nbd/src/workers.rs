//! Runs the threads of one connection for requests that wait. Sessions call this.
//!
//! Invariant: reads, changes and flushes have separate lanes, each with its own threads and queue.
//! Writes that wait for space therefore stop neither reads nor flushes. In each lane at most
//! [`IN_FLIGHT_MAX`] requests and [`IN_FLIGHT_BYTES_MAX`] bytes (or one request) are in flight. A
//! session that submits more waits, so its client does.
//! Reads of a disconnected client are dropped before they begin. Submitted changes and flushes are
//! executed. A worker's panic ends its connection and no other. Threads start when they are needed,
//! as far as the connection's share allows, and end when they have had no work for a while.

use crate::command::Export;
use crate::stats::{Counters, Tally};
use crate::wire::requests::{Command, Request};
use connections::{IDLE_THREAD_LIMIT, Lease, Output, Payload, ThreadShare, Writer};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Output memory that each thread keeps between replies, bytes.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Maximum number of a lane's requests in flight: twice the maximum of the Linux client.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum size of their payloads and replies, bytes.
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;

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
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Number of queued and running requests.
    in_flight: usize,
    bytes: u64,
    idle: usize,
    threads: usize,
    closed: bool,
}

#[derive(Default)]
struct LaneState {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
    /// Copy of [`Queue::in_flight`] that is read without the lock.
    in_flight: AtomicUsize,
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
}

impl LaneState {
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        let mut is_idle = false;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            if is_idle && queue.threads > 1 {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let waited = self.work.wait_for(&mut queue, IDLE_THREAD_LIMIT);
            is_idle = waited.timed_out();
            queue.idle -= 1;
        }
    }
}

impl Queue {
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
            let _running = Running(self, lane, job.cost_bytes);
            if kind == Lane::Reads && self.writer.client_is_gone() {
                self.counters.abandoned.fetch_add(1, Relaxed);
                continue;
            }
            let mut tally = Tally::default();
            let payload = job.payload.as_bytes();
            self.export
                .execute(&job.request, payload, true, &mut out, &mut tally);
            // Count before sending: a client that has a reply must find it counted.
            self.counters
                .add(&mut tally, out.len(), job.arrived.elapsed());
            job.lease.transfer(out.len() as u64);
            // The connection's thread notices that the client disconnected.
            let _ = self.writer.send(out.as_bytes());
            out.clear();
            drop(job.payload);
            drop(job.lease);
        }
    }
}

/// A running job. Its drop returns the permit, even after a panic.
struct Running<'a>(&'a Shared, &'a LaneState, u64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Self(shared, lane, cost_bytes) = *self;
        if thread::panicking() {
            // Its reply is missing or torn, and the client must not wait for it.
            shared.writer.drop_now();
        }
        let mut queue = lane.queue.lock();
        queue.bytes = queue.bytes.saturating_sub(cost_bytes);
        queue.in_flight -= 1;
        lane.in_flight.store(queue.in_flight, Relaxed);
        lane.room.notify_all();
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
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Job> {
        let kind = Lane::of(job.request.command);
        let lane = self.shared.lane(kind);
        let mut queue = lane.queue.lock();
        while !queue.has_room(job.cost_bytes) {
            lane.room.wait(&mut queue);
        }
        let is_needed = queue.idle <= queue.jobs.len() && queue.threads < kind.threads_max();
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
                Err(_) if queue.threads == 0 => return Err(job),
                Err(_) => {}
            }
        }
        queue.bytes = queue.bytes.saturating_add(job.cost_bytes);
        queue.in_flight += 1;
        lane.in_flight.store(queue.in_flight, Relaxed);
        queue.jobs.push_back(job);
        drop(queue);
        lane.work.notify_one();
        Ok(())
    }

    /// Waits until every submitted request was answered.
    pub(crate) fn finish(self) {
        for lane in &self.shared.lanes {
            lane.queue.lock().closed = true;
            lane.work.notify_all();
        }
        for thread in self.threads {
            // A panic was handled where it happened.
            let _ = thread.join();
        }
    }
}
