//! Threads of one connection for requests that wait.
//!
//! Invariant: reads, changes and flushes have lanes of their own, each with its threads and its
//! queue, so that writes which wait for room stop neither reads nor flushes. In each lane at most
//! [`IN_FLIGHT_MAX`] requests and [`IN_FLIGHT_BYTES_MAX`] bytes (or one request) are under way;
//! whoever hands in more waits, so the client does. Reads of a client that is gone are dropped
//! before they are begun; changes and flushes that were handed in are carried out. A worker's panic
//! ends its connection and no other. Sessions call this; threads start with the first need.

use crate::buffers::{Output, Payload};
use crate::command::Export;
use crate::memory::Lease;
use crate::stats::{Counters, Tally};
use crate::wire::requests::{Command, Request};
use crate::writer::Writer;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Output memory that each thread keeps between replies, bytes.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Requests of a lane under way: twice what the Linux client sends at most.
const IN_FLIGHT_MAX: usize = 256;
/// Bytes of their payloads and replies.
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;

/// Requests that may wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Reads and questions for extents.
    Reads,
    /// Writes, zeroes and trims.
    Changes,
    /// Flushes: they cover only what was acknowledged, so they wait for no write under way.
    Flushes,
}

impl Lane {
    const COUNT: usize = 3;

    /// The lane of the command with this number.
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

/// A request that somebody else carries out.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) payload: Payload,
    pub(crate) arrived: Instant,
    /// For its payload and its reply.
    pub(crate) lease: Lease,
    pub(crate) cost_bytes: u64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Queued and running.
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
    /// [`Queue::in_flight`], to be read without the lock.
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
    threads: Vec<JoinHandle<()>>,
}

impl LaneState {
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            self.work.wait(&mut queue);
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
            // Before it is sent: whoever has a reply finds it counted.
            self.counters
                .add(&mut tally, out.len(), job.arrived.elapsed());
            // The connection's thread notices that the client is gone.
            let _ = self.writer.send(out.as_bytes());
            out.clear();
            drop(job.payload);
            drop(job.lease);
        }
    }
}

/// A job under way: gives its permit back when dropped, also by a panic.
struct Running<'a>(&'a Shared, &'a LaneState, u64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Self(shared, lane, cost_bytes) = *self;
        if thread::panicking() {
            // Its reply is missing or torn: the client must not wait for it.
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
    pub(crate) fn new(export: Arc<Export>, writer: Arc<Writer>, counters: Arc<Counters>) -> Self {
        let shared = Shared {
            export,
            writer,
            counters,
            lanes: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
        }
    }

    /// Requests of a lane handed in and not answered yet.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        self.shared.lane(lane).in_flight.load(Relaxed)
    }

    /// True if [`Workers::submit`] would not wait.
    pub(crate) fn has_room(&self, lane: Lane, cost_bytes: u64) -> bool {
        self.shared.lane(lane).queue.lock().has_room(cost_bytes)
    }

    /// Takes a request over; waits while too many of its lane are under way. Gives it back if
    /// there is no thread to do it.
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Job> {
        let kind = Lane::of(job.request.command);
        let lane = self.shared.lane(kind);
        let mut queue = lane.queue.lock();
        while !queue.has_room(job.cost_bytes) {
            lane.room.wait(&mut queue);
        }
        if queue.idle <= queue.jobs.len() && queue.threads < kind.threads_max() {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("nbd-worker".to_owned());
            match thread.spawn(move || shared.run(kind)) {
                Ok(handle) => {
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

    /// Waits until everything handed in was answered.
    pub(crate) fn finish(self) {
        for lane in &self.shared.lanes {
            lane.queue.lock().closed = true;
            lane.work.notify_all();
        }
        for thread in self.threads {
            // A panic was dealt with where it happened.
            let _ = thread.join();
        }
    }
}
