//! Fetches ahead: a bounded queue, and a few threads that read its ranges into the page cache while
//! the reader uses earlier ones.
//!
//! Fronts submit ranges; [`super::Volumes`] ends the threads.
//! Invariant: queued and running parts together stay within the limit of bytes. A range that does
//! not fit is dropped; no caller waits. Errors are dropped too: the reader will meet them itself.

use super::backing::Backing;
use super::decisions::Meters;
use access_pattern::{Fetch, FetchInto};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Ranges are fetched in parts of this size, so that several threads share one window and its start
/// arrives soon.
const PART_BYTES: u64 = 256 << 10;

/// An object whose ranges can be fetched.
pub(super) trait Fetchable: Send + Sync {
    /// Reads the chunks of `[from, to)` that are not in memory into the page cache. Returns the
    /// number of regions that were read.
    fn fetch(&self, from: u64, to: u64) -> store::Result<u64>;
}

/// Returns the plan for a range that a client asked to have fetched.
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
    /// Bytes of queued and running parts.
    bytes: u64,
    stopped: bool,
}

/// The queue. See the module's head.
pub(super) struct Fetcher {
    backing: Arc<Backing>,
    queue: Mutex<Queue>,
    work: Condvar,
}

impl Fetcher {
    pub fn new(backing: Arc<Backing>) -> Self {
        Self {
            backing,
            queue: Mutex::default(),
            work: Condvar::new(),
        }
    }

    /// Queues a plan as far as the limit allows.
    pub fn submit(&self, of: &Arc<dyn Fetchable>, fetch: &Fetch) {
        let (mut planned, mut dropped) = (0, 0);
        let bytes_max = self.backing.access.fetch_bytes_max;
        let mut queue = self.queue.lock();
        for (from, to) in fetch.ranges() {
            planned += to - from;
            let mut at = from;
            while at < to {
                let end = to.min((at + 1).next_multiple_of(PART_BYTES));
                if queue.stopped || queue.bytes + (end - at) > bytes_max {
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
        let meters = &self.backing.meters;
        Meters::add(&meters.fetch_planned_bytes, planned);
        Meters::add(&meters.fetch_dropped_bytes, dropped);
    }

    /// Fetches one part on this thread. Returns false if none is queued.
    pub fn step(&self) -> bool {
        let part = self.queue.lock().parts.pop_front();
        part.map(|part| self.fetch(part)).is_some()
    }

    fn fetch(&self, part: Part) {
        let Part { of, from, to } = part;
        let fetched = of.fetch(from, to).unwrap_or(0);
        Meters::add(&self.backing.meters.fetched_regions, fetched);
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
        // Dropping a part may drop its object, which takes other locks.
        drop(waiting);
        self.work.notify_all();
    }
}

/// The fetching threads. Drop ends and joins them.
pub(super) struct FetchThreads {
    fetcher: Arc<Fetcher>,
    threads: Vec<JoinHandle<()>>,
}

impl FetchThreads {
    pub fn start(fetcher: &Arc<Fetcher>, count: usize) -> Self {
        let thread = |_| {
            let fetcher = Arc::clone(fetcher);
            std::thread::spawn(move || {
                while let Some(part) = fetcher.wait() {
                    fetcher.fetch(part);
                }
            })
        };
        Self {
            fetcher: Arc::clone(fetcher),
            threads: (0..count).map(thread).collect(),
        }
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.fetcher.stop();
        for thread in self.threads.drain(..) {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}
