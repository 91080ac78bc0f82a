//! Runs work of many threads into one pool: a bounded queue, one lane for each thread. Backups and
//! imports call this.
//!
//! ```text
//! feed (caller's thread) --Work--> queue --> workers, one lane each --> session
//! ```
//!
//! Invariant: the first failure of the pool stops everything; a failure of a source file stops only
//! that file. The queue bounds the memory.

mod assembly;
mod stream;

pub use stream::{ByteSource, Cutting, StreamRun};

use crate::observer::Observer;
use crossbeam_channel::{Receiver, Sender};
use media::IoOrigin;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Lane, LaneOptions, StoreError, StoreErrorKind, WriteSession};

/// Bytes that are read, cut and handed over together: several regions, so that a region has
/// neighbours although batches alternate between lanes.
pub const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of waiting work items: with batches, the memory of the queue.
const QUEUE_MAX: usize = 8;

/// A unit of work for a worker's lane.
pub trait Work: Send {
    /// Executes it. An error stops the whole run.
    fn run(self: Box<Self>, lane: &mut Lane, context: &Context<'_>) -> Result<(), StoreError>;
}

/// State that workers share.
pub struct Context<'a> {
    /// Counters and warnings.
    pub observer: &'a dyn Observer,
    queue: Sender<Option<Box<dyn Work + 'a>>>,
    buffers: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    failed: Mutex<Option<StoreError>>,
    stop: AtomicBool,
}

impl<'a> Context<'a> {
    /// Queues work; waits while the queue is full. Returns false if the run has failed or was
    /// interrupted: the caller stops.
    pub fn submit(&self, work: Box<dyn Work + 'a>) -> bool {
        !self.stopped() && self.queue.send(Some(work)).is_ok()
    }

    /// Returns true if no more work should begin.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.observer.stop_requested()
    }

    /// Records the first failure and stops the run.
    pub fn fail(&self, error: StoreError) {
        let mut failed = self.failed.lock();
        failed.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns a buffer of at least `len` bytes with any contents: zeroing it would cost as much as
    /// hashing.
    pub fn buffer(&self, len: usize) -> Vec<u8> {
        let mut buffer = self.buffers.1.try_recv().unwrap_or_default();
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer
    }

    /// Returns a buffer to the buffer pool.
    pub fn recycle(&self, buffer: Vec<u8>) {
        // A full buffer pool frees this one.
        let _ = self.buffers.0.try_send(buffer);
    }
}

/// Runs `feed` on this thread, and submitted work on one new lane for each worker. The lanes return
/// to the session in any case, so that an interrupted run keeps what it has stored.
pub fn run<'a, T>(
    session: &mut WriteSession,
    workers: usize,
    options: LaneOptions,
    observer: &'a dyn Observer,
    feed: impl FnOnce(&Context<'a>, &mut Lane) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let lanes: Vec<_> = (0..workers.max(1))
        .map(|_| session.lane(options))
        .collect::<Result<_, _>>()?;
    let (lanes, fed) = run_lanes(lanes, observer, |context| feed(context, session.main()));
    let mut retired = Ok(());
    for lane in lanes {
        retired = retired.and(session.retire(lane));
    }
    // The first error is the cause.
    fed.and_then(|value| retired.map(|()| value))
}

fn run_lanes<'a, T>(
    lanes: Vec<Lane>,
    observer: &'a dyn Observer,
    feed: impl FnOnce(&Context<'a>) -> Result<T, StoreError>,
) -> (Vec<Lane>, Result<T, StoreError>) {
    let (queue, work) = crossbeam_channel::bounded::<Option<Box<dyn Work + 'a>>>(QUEUE_MAX);
    let context = Context {
        observer,
        queue,
        // The maximum in use: in the queue, with each worker, with the reader.
        buffers: crossbeam_channel::bounded(QUEUE_MAX + lanes.len() + 1),
        failed: Mutex::new(None),
        stop: AtomicBool::new(false),
    };
    let context_ref = &context;
    let io_origin = IoOrigin::current();
    let (fed, lanes) = std::thread::scope(|scope| {
        let workers: Vec<_> = lanes
            .into_iter()
            .map(|mut lane| {
                let work = work.clone();
                scope.spawn(move || {
                    let _io_origin = io_origin.begin();
                    // Ends with the message that feeding ended, one for each worker.
                    while let Ok(Some(item)) = work.recv() {
                        if context_ref.stopped() {
                            continue;
                        }
                        if let Err(e) = item.run(&mut lane, context_ref) {
                            context_ref.fail(e);
                        }
                        context_ref.observer.has_stored(lane.session_stored_bytes());
                    }
                    lane
                })
            })
            .collect();
        let fed = feed(context_ref);
        if fed.is_err() {
            context_ref.stop.store(true, Ordering::Relaxed);
        }
        for _ in &workers {
            // Workers keep receiving until they see this, so it cannot block forever.
            let _ = context_ref.queue.send(None);
        }
        let lanes: Vec<_> = workers.into_iter().filter_map(|w| w.join().ok()).collect();
        (fed, lanes)
    });
    let failed = context.failed.into_inner();
    let result = match failed {
        Some(error) => Err(error),
        None if observer.stop_requested() => {
            Err(StoreError::new(StoreErrorKind::Interrupted, String::new()))
        }
        None => fed,
    };
    (lanes, result)
}
