//! The queue of one lane, and how its threads wait for requests. Workers own one for each lane.
//!
//! Invariant: requests begin in the order of their arrival, but for those that must wait for older
//! ones. A thread that watches is the last resort: it executes what a thread that hangs was to
//! execute.

use super::WorkerRequest;
use crate::threads::IDLE_THREAD_LIMIT;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum number of a lane's requests in flight: twice the maximum of the Linux client.
pub(super) const IN_FLIGHT_MAX: usize = 256;
/// Maximum size of their payloads and replies, bytes.
pub(super) const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// A request that waits for so long is executed by the watching thread.
const WATCH_PERIOD: Duration = Duration::from_millis(5);
/// Time without announced reads after which no thread watches.
const WATCH_LIMIT: Duration = Duration::from_millis(100);

/// The requests of a lane, and its threads.
pub(super) struct Queue<R: WorkerRequest> {
    pub(super) waiting: VecDeque<R>,
    /// Names of requests that a thread has taken and not answered, but for announced reads.
    pub(super) running: Vec<R::Name>,
    /// Number of queued and running requests.
    pub(super) in_flight: usize,
    bytes: u64,
    pub(super) idle: usize,
    pub(super) threads: usize,
    /// Threads that execute announced reads, each several one after the other.
    pub(super) together: usize,
    /// Threads that were woken or started for announced reads and have not come yet.
    pub(super) coming: usize,
    /// When the last announced read was begun.
    announced_at: Option<Instant>,
    /// A thread looks now and then whether requests wait for one that hangs.
    pub(super) is_watched: bool,
    is_closed: bool,
}

/// The queue of a lane, and where its threads wait.
pub(super) struct LaneQueue<R: WorkerRequest> {
    pub(super) queue: Mutex<Queue<R>>,
    work: Condvar,
    /// Where the watching thread waits.
    watch: Condvar,
    done: Condvar,
    /// Copy of [`Queue::in_flight`] that is read without the lock.
    in_flight: AtomicUsize,
    /// The last announced read waited for long: threads wait for such reads side by side.
    pub(super) is_slow: AtomicBool,
}

impl<R: WorkerRequest> Default for LaneQueue<R> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                running: Vec::new(),
                in_flight: 0,
                bytes: 0,
                idle: 0,
                threads: 0,
                together: 0,
                coming: 0,
                announced_at: None,
                is_watched: false,
                is_closed: false,
            }),
            work: Condvar::new(),
            watch: Condvar::new(),
            done: Condvar::new(),
            in_flight: AtomicUsize::new(0),
            is_slow: AtomicBool::new(false),
        }
    }
}

impl<R: WorkerRequest> LaneQueue<R> {
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Returns true if a request needs a thread of its own. Otherwise one that executes announced
    /// reads, or was woken for one, comes to it soon. At most `together` do while the device is
    /// quick.
    pub(super) fn needs_thread(
        &self,
        queue: &Queue<R>,
        is_announced: bool,
        together: usize,
    ) -> bool {
        !is_announced
            || self.is_slow.load(Relaxed)
            || queue.together + queue.coming < together
                && queue.waiting.len().is_multiple_of(super::TOGETHER_MAX)
    }

    /// Returns the next request if it is an announced read.
    pub(super) fn next_announced(&self) -> Option<R> {
        let mut queue = self.queue.lock();
        let is_announced = |request: &mut R| request.announced().is_some();
        queue.waiting.pop_front_if(is_announced)
    }

    /// Waits for the next request; `None` if the thread is to end.
    pub(super) fn next(&self) -> Option<R> {
        let mut queue = self.queue.lock();
        let (mut is_idle, mut least) = (false, Duration::ZERO);
        loop {
            if let Some(request) = queue.take(least) {
                return Some(request);
            }
            let is_empty = queue.waiting.is_empty();
            if is_empty {
                // Others have executed the requests for which threads come.
                queue.coming = 0;
            }
            if queue.is_closed && is_empty {
                return None;
            }
            if queue.watches(least) {
                queue.is_watched = true;
                let waited = self.watch.wait_for(&mut queue, WATCH_PERIOD);
                queue.is_watched = false;
                least = match waited.timed_out() {
                    true => WATCH_PERIOD,
                    false => Duration::ZERO,
                };
                continue;
            }
            // One stays, and as many as may be needed for requests that wait for others.
            if is_idle && is_empty && queue.threads > 1 {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let waited = self.work.wait_for(&mut queue, IDLE_THREAD_LIMIT);
            queue.idle -= 1;
            (is_idle, least) = (waited.timed_out(), Duration::ZERO);
        }
    }

    /// Waits while too many requests are in flight.
    pub(super) fn wait_for_room(&self, cost_bytes: u64) -> MutexGuard<'_, Queue<R>> {
        let mut queue = self.queue.lock();
        while !queue.has_room(cost_bytes) {
            self.done.wait(&mut queue);
        }
        queue
    }

    /// Appends a request, and wakes a thread if one is needed.
    pub(super) fn push(
        &self,
        mut queue: MutexGuard<'_, Queue<R>>,
        request: R,
        wakes: bool,
        needs_watch: bool,
    ) {
        queue.bytes = queue.bytes.saturating_add(request.cost_bytes());
        queue.in_flight += 1;
        self.in_flight.store(queue.in_flight, Relaxed);
        queue.waiting.push_back(request);
        let is_one_idle = queue.idle > 0;
        drop(queue);
        if wakes {
            match is_one_idle {
                true => self.work.notify_one(),
                false => self.watch.notify_one(),
            };
        }
        if needs_watch {
            self.work.notify_one();
        }
    }

    /// Counts requests that are answered or dropped.
    pub(super) fn finished(
        &self,
        count: usize,
        cost_bytes: u64,
        change: impl FnOnce(&mut Queue<R>),
    ) {
        let mut queue = self.queue.lock();
        queue.bytes = queue.bytes.saturating_sub(cost_bytes);
        queue.in_flight = queue.in_flight.saturating_sub(count);
        change(&mut queue);
        self.in_flight.store(queue.in_flight, Relaxed);
        self.done.notify_all();
    }

    /// Drops requests that have not begun and that `is_meant`. Returns their number.
    pub(super) fn cancel(&self, is_meant: impl Fn(&R) -> bool) -> usize {
        let mut queue = self.queue.lock();
        let waiting = std::mem::take(&mut queue.waiting);
        let (dropped, kept): (VecDeque<_>, _) = waiting.into_iter().partition(is_meant);
        queue.waiting = kept;
        drop(queue);
        let cost_bytes = dropped.iter().map(R::cost_bytes).sum();
        self.finished(dropped.len(), cost_bytes, |_| {});
        // Not under the lock of the queue: dropping them may wake workers.
        dropped.len()
    }

    /// Waits until requests have ended so that `is_true`.
    pub(super) fn wait_until(&self, is_true: impl Fn(&Queue<R>) -> bool) {
        let mut queue = self.queue.lock();
        while !is_true(&queue) {
            self.done.wait(&mut queue);
        }
    }

    pub(super) fn wake_all(&self) {
        // A thread that has just found nothing is asleep after this.
        drop(self.queue.lock());
        self.work.notify_all();
    }

    /// Lets the threads end when no request is left.
    pub(super) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.work.notify_all();
        self.watch.notify_all();
    }
}

impl<R: WorkerRequest> Queue<R> {
    /// Takes the oldest request that is ready. While `least` is not 0, announced reads that wait
    /// for less are left to others.
    fn take(&mut self, least: Duration) -> Option<R> {
        let is_any = self.is_closed || least.is_zero();
        let is_due = |request: &R| {
            let waits = |at: Instant| at.elapsed() >= least;
            request.is_ready() && (is_any || request.announced().is_none_or(waits))
        };
        let at = self.waiting.iter().position(is_due)?;
        let request = self.waiting.remove(at)?;
        match request.announced() {
            Some(arrived) => {
                self.together += 1;
                self.coming = self.coming.saturating_sub(1);
                self.announced_at = Some(arrived);
            }
            None => self.running.push(request.name()),
        }
        Some(request)
    }

    /// Returns true if a thread without work must watch: announced reads may wait for one that
    /// hangs, and no other request may come that would wake a thread. `least`: see
    /// [`Queue::take`].
    fn watches(&self, least: Duration) -> bool {
        let is_recent = |at: Instant| at.elapsed() < WATCH_LIMIT;
        let are_left = !least.is_zero() && !self.waiting.is_empty();
        (are_left || self.announced_at.is_some_and(is_recent)) && !self.is_watched
    }

    pub(super) fn has_room(&self, cost_bytes: u64) -> bool {
        let bytes = self.bytes.saturating_add(cost_bytes);
        self.in_flight == 0 || (self.in_flight < IN_FLIGHT_MAX && bytes <= IN_FLIGHT_BYTES_MAX)
    }

    pub(super) fn forget_running(&mut self, name: R::Name) {
        let mut running = self.running.iter();
        if let Some(at) = running.position(|other| *other == name) {
            self.running.swap_remove(at);
        }
    }
}
