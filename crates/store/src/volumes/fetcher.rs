//! Fetching ahead: a bounded queue, and a few threads that read what is in it into the page cache
//! while the reader uses what was fetched before.
//!
//! Invariant: what waits and what is being fetched stays within the limit of bytes; what finds no
//! room is dropped, never waited for. What is fetched is a hint: errors are dropped too, the reader
//! meets them himself. Called by fronts; the threads end with [`super::Volumes`].

use super::decisions::Meters;
use super::engine::Engine;
use access_pattern::{Fetch, FetchInto};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Pieces of a plan are fetched in parts of this size: several threads share one window, and the
/// first of it arrives soon.
const PART_BYTES: u64 = 256 << 10;

/// What bytes are fetched of.
pub(super) trait Fetchable: Send + Sync {
    /// Reads what of `[from, to)` is not in memory into the page cache; regions that were read.
    fn fetch(&self, engine: &Engine, from: u64, to: u64) -> crate::error::Result<u64>;
}

/// What a front end asked to have fetched.
pub(super) fn hinted(offset_bytes: u64, len_bytes: u64) -> Fetch {
    Fetch {
        offset_bytes,
        len_bytes,
        step_bytes: len_bytes,
        count: 1,
        into: FetchInto::Memory,
    }
}

struct Part {
    of: Arc<dyn Fetchable>,
    from: u64,
    to: u64,
}

#[derive(Default)]
struct Queue {
    parts: VecDeque<Part>,
    /// Of parts that wait or are being fetched.
    bytes: u64,
    stopped: bool,
}

/// See the module's head.
pub(super) struct Fetcher {
    queue: Mutex<Queue>,
    work: Condvar,
    bytes_max: u64,
}

impl Fetcher {
    pub fn new(bytes_max: u64) -> Self {
        Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            bytes_max,
        }
    }

    /// Queues what was planned, as far as there is room.
    pub fn submit(&self, meters: &Meters, of: &Arc<dyn Fetchable>, fetch: &Fetch) {
        let (mut planned, mut dropped) = (0, 0);
        let mut queue = self.queue.lock();
        for (from, to) in fetch.ranges() {
            planned += to - from;
            let mut at = from;
            while at < to {
                let end = to.min((at + 1).next_multiple_of(PART_BYTES));
                if queue.stopped || queue.bytes + (end - at) > self.bytes_max {
                    dropped += to - at;
                    break;
                }
                queue.bytes += end - at;
                queue.parts.push_back(Part {
                    of: Arc::clone(of),
                    from: at,
                    to: end,
                });
                self.work.notify_one();
                at = end;
            }
        }
        drop(queue);
        Meters::add(&meters.fetch_planned_bytes, planned);
        Meters::add(&meters.fetch_dropped_bytes, dropped);
    }

    /// Fetches one part on this thread. False when none waits.
    pub fn step(&self, engine: &Engine) -> bool {
        let part = self.queue.lock().parts.pop_front();
        part.map(|part| self.fetch(engine, part)).is_some()
    }

    fn fetch(&self, engine: &Engine, part: Part) {
        let Part { of, from, to } = part;
        let fetched = of.fetch(engine, from, to).unwrap_or(0);
        Meters::add(&engine.backing.meters.fetched_regions, fetched);
        let mut queue = self.queue.lock();
        queue.bytes = queue.bytes.saturating_sub(to - from);
    }

    fn wait(&self) -> Option<Part> {
        let mut queue = self.queue.lock();
        let idle = |queue: &mut Queue| queue.parts.is_empty() && !queue.stopped;
        self.work.wait_while(&mut queue, idle);
        match queue.stopped {
            true => None,
            false => queue.parts.pop_front(),
        }
    }

    fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.bytes = 0;
        let waiting = std::mem::take(&mut queue.parts);
        drop(queue);
        // What they are of may end with them, and takes locks of its own then.
        drop(waiting);
        self.work.notify_all();
    }
}

/// The threads that fetch; ended and waited for when it is dropped.
pub(super) struct FetchThreads {
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
}

impl FetchThreads {
    pub fn start(engine: &Arc<Engine>, count: usize) -> Self {
        let thread = |_| {
            let engine = Arc::clone(engine);
            std::thread::spawn(move || {
                while let Some(part) = engine.fetcher.wait() {
                    engine.fetcher.fetch(&engine, part);
                }
            })
        };
        Self {
            engine: Arc::clone(engine),
            threads: (0..count).map(thread).collect(),
        }
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.engine.fetcher.stop();
        for thread in self.threads.drain(..) {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}
