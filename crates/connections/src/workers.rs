//! Runs the threads of one connection for requests that wait. Sessions of all protocols call this.
//!
//! Invariant: reads, changes and flushes have separate lanes, each with its own threads and queue.
//! Writes that wait for space therefore stop neither reads nor flushes. In each lane at most
//! [`IN_FLIGHT_MAX`](queue::IN_FLIGHT_MAX) requests and
//! [`IN_FLIGHT_BYTES_MAX`](queue::IN_FLIGHT_BYTES_MAX) bytes (or one request) are in flight. A
//! session that submits more waits, so its client does.
//! Reads of a disconnected client are dropped before they begin, but for at most [`TOGETHER_MAX`]
//! announced ones. Submitted changes and flushes are executed. A request that must wait for older
//! ones waits in its queue, and younger ones that need not wait pass it. With announced reads the
//! device has begun: few threads execute them, one after the other, and send their replies
//! together. A reply does not wait for a device that is slow. A worker's panic ends its connection
//! and no other.
//! Threads start when they are needed, as far as the connection's share allows, and end when they
//! have had no work for a while.

mod queue;

use crate::connection::Connection;
use crate::threads::ThreadShare;
use queue::LaneQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Number of announced reads that one thread executes before it sends their replies. Waking a
/// thread and sending cost more than such a read.
const TOGETHER_MAX: usize = 8;
/// A read that took longer waited for the device: the next one may too, and no reply waits for it.
const TOGETHER_LIMIT: Duration = Duration::from_micros(200);
/// A device that lets an announced read wait for longer serves few at a time.
const SLOW_LIMIT: Duration = Duration::from_millis(1);

/// Class of requests that may wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Requests that change nothing.
    Reads,
    /// Requests that change the contents, or the state of the disk.
    Changes,
    /// Flushes. They cover only acknowledged writes, so they wait for no write in flight.
    Flushes,
}

impl Lane {
    const COUNT: usize = 3;

    fn threads_max(self) -> usize {
        match self {
            Self::Reads | Self::Changes => 16,
            Self::Flushes => 2,
        }
    }
}

/// A request for a worker.
pub trait WorkerRequest: Send + 'static {
    /// Names a request for [`Workers::wait_for_running`].
    type Name: Copy + PartialEq + Send;
    /// Returns its name.
    fn name(&self) -> Self::Name;
    /// Returns its lane.
    fn lane(&self) -> Lane;
    /// Returns the size of its payload and its reply, bytes.
    fn cost_bytes(&self) -> u64;
    /// Returns false if it must wait for older requests.
    fn is_ready(&self) -> bool;
    /// Returns the time of its arrival if it is a read with which the device has begun: it costs a
    /// worker little more than waiting for it.
    fn announced(&self) -> Option<Instant>;
}

/// The protocol and the session that the workers of a connection work for.
pub trait Service: Send + Sync + 'static {
    /// Name of the threads.
    const THREAD_NAME: &'static str;
    /// A request.
    type Request: WorkerRequest;
    /// Replies that one thread sends together.
    type Replies;
    /// Leases that a request keeps until its reply is sent.
    type Leases;

    /// Returns the connection.
    fn connection(&self) -> &Connection;
    /// Returns the number of reads that were dropped before they began.
    fn abandoned(&self) -> &AtomicU64;
    /// Makes what a thread collects replies in.
    fn replies(&self) -> Self::Replies;
    /// Executes a request, appends its reply, and counts it.
    fn execute(&self, request: Self::Request, replies: &mut Self::Replies) -> Self::Leases;
    /// Sends all replies, and drops them. The connection's thread notices that the client
    /// disconnected.
    fn send(&self, replies: &mut Self::Replies);
}

struct WorkerLanes<S: Service> {
    service: S,
    lanes: [LaneQueue<S::Request>; Lane::COUNT],
}

/// The threads and their queues.
pub struct Workers<S: Service> {
    shared: Arc<WorkerLanes<S>>,
    share: Arc<ThreadShare>,
    threads: Vec<JoinHandle<()>>,
    /// Number of threads that execute announced reads while the device is quick.
    together_threads: usize,
}

impl<S: Service> WorkerLanes<S> {
    fn lane(&self, lane: Lane) -> &LaneQueue<S::Request> {
        &self.lanes[lane as usize]
    }

    fn run(&self, kind: Lane) {
        let (service, lane) = (&self.service, self.lane(kind));
        let mut replies = service.replies();
        let mut leases = Vec::new();
        while let Some(request) = lane.next() {
            let mut running = Running::new(self, lane, &request);
            if kind == Lane::Reads && service.connection().look_for_client() {
                service.abandoned().fetch_add(1, Relaxed);
                continue;
            }
            let mut next = Some(request);
            while let Some(request) = next.take() {
                let begun = request.announced().map(|_| Instant::now());
                leases.push(service.execute(request, &mut replies));
                if let Some(begun) = begun {
                    let took = begun.elapsed();
                    lane.is_slow.store(took > SLOW_LIMIT, Relaxed);
                    let may_more = running.requests < TOGETHER_MAX && took < TOGETHER_LIMIT;
                    next = may_more.then(|| lane.next_announced()).flatten();
                    next.iter().for_each(|request| running.add(request));
                }
            }
            service.send(&mut replies);
            leases.clear();
        }
    }
}

/// Running requests of one thread. Its drop counts them as finished, even after a panic.
struct Running<'a, S: Service> {
    shared: &'a WorkerLanes<S>,
    lane: &'a LaneQueue<S::Request>,
    requests: usize,
    cost_bytes: u64,
    /// `None` if they are announced reads.
    name: Option<<S::Request as WorkerRequest>::Name>,
}

impl<'a, S: Service> Running<'a, S> {
    fn new(
        shared: &'a WorkerLanes<S>,
        lane: &'a LaneQueue<S::Request>,
        first: &S::Request,
    ) -> Self {
        let name = first.announced().is_none().then(|| first.name());
        let mut running = Self {
            shared,
            lane,
            requests: 0,
            cost_bytes: 0,
            name,
        };
        running.add(first);
        running
    }

    fn add(&mut self, request: &S::Request) {
        self.requests += 1;
        self.cost_bytes = self.cost_bytes.saturating_add(request.cost_bytes());
    }
}

impl<S: Service> Drop for Running<'_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            // A reply is missing or torn, and the client must not wait for it.
            self.shared.service.connection().drop_now();
        }
        let lane = self.lane;
        lane.finished(self.requests, self.cost_bytes, |queue| match self.name {
            Some(name) => queue.forget_running(name),
            None => queue.together = queue.together.saturating_sub(1),
        });
    }
}

impl<S: Service> Workers<S> {
    /// Makes the workers of a connection. They have no threads yet.
    pub fn new(service: S, share: Arc<ThreadShare>) -> Self {
        let shared = WorkerLanes {
            service,
            lanes: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
            together_threads: share.processors().div_ceil(2),
            share,
            threads: Vec::new(),
        }
    }

    /// Returns what the workers work for.
    pub fn service(&self) -> &S {
        &self.shared.service
    }

    /// Returns what wakes all threads: requests may be ready that were not before.
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<S> {
        let woken = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = woken.upgrade() {
                shared.lanes.iter().for_each(LaneQueue::wake_all);
            }
        }
    }

    /// Returns the number of a lane's requests that are submitted and not answered yet.
    pub fn in_flight(&self, lane: Lane) -> usize {
        self.shared.lane(lane).in_flight()
    }

    /// Returns the number of all requests that are submitted and not answered yet.
    pub fn in_flight_all(&self) -> usize {
        self.shared.lanes.iter().map(LaneQueue::in_flight).sum()
    }

    /// Returns true if [`Workers::submit`] would not wait.
    pub fn has_room(&self, lane: Lane, cost_bytes: u64) -> bool {
        self.shared.lane(lane).queue.lock().has_room(cost_bytes)
    }

    /// Takes a request over. Waits while too many of its lane are in flight. Returns it if no
    /// thread can execute it.
    pub fn submit(&mut self, request: S::Request) -> Result<(), Box<S::Request>> {
        let kind = request.lane();
        let lane = self.shared.lane(kind);
        let mut queue = lane.wait_for_room(request.cost_bytes());
        let is_announced = request.announced().is_some();
        let wakes = lane.needs_thread(&queue, is_announced, self.together_threads);
        let needs_watch = is_announced && !queue.is_watched;
        let least = if is_announced { 2 } else { 1 };
        let are_few = wakes && queue.idle <= queue.waiting.len() || queue.threads < least;
        let is_needed = are_few && queue.threads < kind.threads_max();
        if is_needed && let Some(permit) = self.share.try_take(queue.threads) {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name(S::THREAD_NAME.to_owned());
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
                Err(_) if queue.threads == 0 => return Err(Box::new(request)),
                Err(_) => {}
            }
        }
        queue.coming += usize::from(wakes && is_announced);
        lane.push(queue, request, wakes, needs_watch);
        Ok(())
    }

    /// Drops requests that have not begun and that `is_meant`. Returns their number.
    pub fn cancel(&self, is_meant: impl Fn(&S::Request) -> bool) -> usize {
        self.shared.lanes.iter().map(|l| l.cancel(&is_meant)).sum()
    }

    /// Drops the requests that wait for older ones.
    pub fn cancel_held(&self) {
        self.cancel(|request| !request.is_ready());
    }

    /// Waits until the requests that a thread has taken and that `is_meant`, by name, have ended
    /// and were answered. Announced reads have no names.
    pub fn wait_for_running(&self, is_meant: impl Fn(<S::Request as WorkerRequest>::Name) -> bool) {
        for lane in &self.shared.lanes {
            lane.wait_until(|queue| !queue.running.iter().any(|name| is_meant(*name)));
        }
    }

    /// Waits until every submitted request was answered. None may wait for one that is not
    /// submitted.
    pub fn drain(&self) {
        for lane in &self.shared.lanes {
            lane.wait_until(|queue| queue.in_flight == 0);
        }
    }

    /// Waits until every submitted request was answered, and ends the threads.
    pub fn finish(self) {
        self.shared.lanes.iter().for_each(LaneQueue::close);
        for thread in self.threads {
            // A panic was handled where it happened.
            let _ = thread.join();
        }
    }
}
