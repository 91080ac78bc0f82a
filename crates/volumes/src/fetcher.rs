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
use units::IoClass;

/// Ranges are fetched in parts of this size, so that several threads share one window and its start
/// arrives soon.
const PART_BYTES: u64 = 256 << 10;
/// Parts for the fast tier may take this part of the limit.
const AROUND_PART: u64 = 8;

/// An object whose ranges can be fetched.
pub(super) trait Fetchable: Send + Sync {
    /// Reads the chunks of `[from, to)` that are not in memory into the page cache. Returns the
    /// number of regions that were read. `class` is that of the request which they follow.
    fn fetch(&self, from: u64, to: u64, class: IoClass) -> store::Result<u64>;

    /// Offers the chunks of `[from, to)` to the fast tier.
    fn fetch_around(&self, from: u64, to: u64, class: IoClass) -> store::Result<()>;
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
    into: FetchInto,
    class: IoClass,
}

#[derive(Default)]
struct Queue {
    parts: VecDeque<Part>,
    /// Parts for the fast tier. They run when nothing else does, one at a time: at most one of the
    /// requests that the device has is theirs.
    around: VecDeque<Part>,
    is_around_running: bool,
    /// Bytes of queued and running parts.
    bytes: u64,
    /// Bytes of them for the fast tier.
    around_bytes: u64,
    stopped: bool,
}

impl Queue {
    fn pop(&mut self) -> Option<Part> {
        if let Some(part) = self.parts.pop_front() {
            return Some(part);
        }
        if self.is_around_running {
            return None;
        }
        let part = self.around.pop_front();
        self.is_around_running = part.is_some();
        part
    }

    fn push(&mut self, part: Part) {
        let bytes = part.to - part.from;
        self.bytes += bytes;
        match part.into {
            FetchInto::Memory => self.parts.push_back(part),
            FetchInto::FastTier => {
                self.around_bytes += bytes;
                self.around.push_back(part);
            }
        }
    }

    fn done(&mut self, part: &Part) {
        let bytes = part.to - part.from;
        self.bytes = self.bytes.saturating_sub(bytes);
        if part.into == FetchInto::FastTier {
            self.around_bytes = self.around_bytes.saturating_sub(bytes);
            self.is_around_running = false;
        }
    }
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

    /// Queues a plan as far as the limit allows, for requests of that class.
    pub fn submit(&self, of: &Arc<dyn Fetchable>, fetch: &Fetch, class: IoClass) {
        let (mut planned, mut dropped) = (0, 0);
        let into = fetch.into;
        let bytes_max = self.backing.access.fetch_bytes_max;
        let around_max = bytes_max / AROUND_PART;
        let mut queue = self.queue.lock();
        for (from, to) in fetch.ranges() {
            planned += to - from;
            let mut at = from;
            while at < to {
                let end = to.min((at + 1).next_multiple_of(PART_BYTES));
                let bytes = end - at;
                let is_full = queue.bytes + bytes > bytes_max
                    || into == FetchInto::FastTier && queue.around_bytes + bytes > around_max;
                if queue.stopped || is_full {
                    dropped += to - at;
                    break;
                }
                queue.push(Part {
                    of: Arc::clone(of),
                    from: at,
                    to: end,
                    into,
                    class,
                });
                self.work.notify_one();
                at = end;
            }
        }
        drop(queue);
        let meters = &self.backing.meters;
        let (of_planned, of_dropped) = match into {
            FetchInto::Memory => (&meters.fetch_planned_bytes, &meters.fetch_dropped_bytes),
            FetchInto::FastTier => (&meters.around_planned_bytes, &meters.around_dropped_bytes),
        };
        Meters::add(of_planned, planned);
        Meters::add(of_dropped, dropped);
    }

    /// Fetches one part on this thread. Returns false if none is queued.
    pub fn step(&self) -> bool {
        let part = self.queue.lock().pop();
        part.map(|part| self.fetch(part)).is_some()
    }

    fn fetch(&self, part: Part) {
        let Part {
            of,
            from,
            to,
            into,
            class,
        } = &part;
        match into {
            FetchInto::Memory => {
                let fetched = of.fetch(*from, *to, *class).unwrap_or(0);
                Meters::add(&self.backing.meters.fetched_regions, fetched);
            }
            FetchInto::FastTier => drop(of.fetch_around(*from, *to, *class)),
        }
        let mut queue = self.queue.lock();
        queue.done(&part);
        let has_more = !queue.around.is_empty();
        drop(queue);
        if has_more {
            // A thread may have waited for this one.
            self.work.notify_one();
        }
    }

    fn wait(&self) -> Option<Part> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(part) = queue.pop() {
                return Some(part);
            }
            self.work.wait(&mut queue);
        }
    }

    fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.bytes = 0;
        let waiting = (
            std::mem::take(&mut queue.parts),
            std::mem::take(&mut queue.around),
        );
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
