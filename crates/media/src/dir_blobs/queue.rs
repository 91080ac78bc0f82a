//! Queues puts and tracks running ones, names that are not durable yet, and the failure that
//! poisons everything. `dir_blobs` calls this.
//!
//! Invariant: jobs are numbered in the order of their puts, and a barrier waits for all earlier
//! ones. One barrier syncs at a time, so none returns while another still syncs names that it
//! should cover. After a failure nothing is accepted.

use super::Unnamed;
use crate::{IoOrigin, MediaError, MediaErrorKind, Need, Put};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// A blob to be stored.
pub(super) struct Job {
    /// Number, assigned by the queue.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) how: Put,
    /// Purpose of the put, which limits its use of the reserve.
    pub(super) need: Need,
    /// File that becomes the blob.
    pub(super) unnamed: Unnamed,
    /// I/O origin of the put.
    pub(super) io_origin: IoOrigin,
}

#[derive(Default)]
struct QueueState {
    number_next: u64,
    waiting: VecDeque<Job>,
    /// Names of running puts, by number.
    running: BTreeMap<u64, String>,
    stop: bool,
    /// Kind and text of the failure after which nothing is accepted.
    failed: Option<(io::ErrorKind, String)>,
    /// The failure, until it is reported once.
    first_error: Option<MediaError>,
    /// True while a barrier is syncing.
    syncing: bool,
    /// Directories with names that are not durable yet.
    dirs_unsynced: BTreeSet<String>,
    /// Directories that exist and have a durable entry.
    dirs_known: BTreeSet<String>,
}

impl QueueState {
    /// Reports the first failure once as it was. After that every call fails with `Poisoned` and
    /// the failure's kind and text.
    ///
    /// Of several concurrent callers, any may be the one whose error reaches the user.
    fn refuse_poisoned(&mut self, operation: &'static str, name: &str) -> Result<(), MediaError> {
        if let Some(e) = self.first_error.take() {
            return Err(e);
        }
        match &self.failed {
            Some((kind, why)) => Err(MediaError {
                source: Some(io::Error::new(*kind, why.clone())),
                ..MediaError::plain(MediaErrorKind::Poisoned, operation, name)
            }),
            None => Ok(()),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.waiting.iter().any(|job| job.name == name)
            || self.running.values().any(|running| running == name)
    }

    /// Returns true if a job numbered below `number` is not done.
    fn has_before(&self, number: u64) -> bool {
        let first = self.waiting.front().map(|job| job.number);
        let oldest = self.running.keys().next().copied();
        [first, oldest]
            .into_iter()
            .flatten()
            .any(|job| job < number)
    }
}

/// Queue of puts, shared by callers and writer threads.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    waiting_max: usize,
}

impl Queue {
    pub(super) fn new(waiting_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            waiting_max,
        }
    }

    /// Admits a direct change: refuses it after a failure, and waits for the queued put of the same
    /// name, which comes first.
    pub(super) fn accept(&self, operation: &'static str, name: &str) -> Result<(), MediaError> {
        let mut state = self.wait_while(self.state.lock(), |state| state.has(name));
        state.refuse_poisoned(operation, name)
    }

    /// Returns when no put of this name is queued or running, successful or not.
    pub(super) fn wait_for(&self, name: &str) {
        drop(self.wait_while(self.state.lock(), |state| state.has(name)));
    }

    /// Fails after a failure, as all later calls will.
    pub(super) fn refuse_poisoned(
        &self,
        operation: &'static str,
        name: &str,
    ) -> Result<(), MediaError> {
        self.state.lock().refuse_poisoned(operation, name)
    }

    /// Queues a put when there is space. Returns the file of a refused one.
    pub(super) fn push(&self, mut job: Job) -> Result<(), (MediaError, Unnamed)> {
        let max = self.waiting_max;
        let is_full = |state: &QueueState| state.waiting.len() >= max || state.has(&job.name);
        let mut state = self.wait_while(self.state.lock(), is_full);
        if let Err(e) = state.refuse_poisoned("store", &job.name) {
            return Err((e, job.unnamed));
        }
        job.number = state.number_next;
        state.number_next += 1;
        state.waiting.push_back(job);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the next put and returns it; `None` when no more will come.
    pub(super) fn take(&self) -> Option<Job> {
        let idle = |state: &QueueState| state.waiting.is_empty() && !state.stop;
        let mut state = self.wait_while(self.state.lock(), idle);
        let job = state.waiting.pop_front()?;
        state.running.insert(job.number, job.name.clone());
        self.changed.notify_all();
        Some(job)
    }

    /// Keeps job `number` running until its end is reported, or its thread panics.
    pub(super) fn running(&self, number: u64) -> Running<'_> {
        Running {
            queue: self,
            number,
            ended: false,
        }
    }

    /// Accepts no more puts; queued ones are still done.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Poisons the queue: nothing is accepted after the failure `why`.
    pub(super) fn poison(&self, why: &MediaError) {
        let kind = why
            .source
            .as_ref()
            .map_or(io::ErrorKind::Other, io::Error::kind);
        self.fail(kind, why.to_string());
    }

    fn fail(&self, kind: io::ErrorKind, why: String) {
        let mut state = self.state.lock();
        state.failed.get_or_insert((kind, why));
        // No caller was promised these, and none will be.
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// Notes that a name in `dir` is not durable yet.
    pub(super) fn named(&self, dir: &str) {
        self.state.lock().dirs_unsynced.insert(dir.to_owned());
    }

    pub(super) fn is_known(&self, dir: &str) -> bool {
        self.state.lock().dirs_known.contains(dir)
    }

    /// Notes that `dir` exists and its entry is durable.
    pub(super) fn know(&self, dir: &str) {
        self.state.lock().dirs_known.insert(dir.to_owned());
    }

    /// Waits for all earlier puts, then lets `sync` make the names durable, without holding the
    /// lock.
    pub(super) fn barrier(
        &self,
        sync: impl FnOnce(&BTreeSet<String>) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let state = self.state.lock();
        let number = state.number_next;
        let busy = |state: &QueueState| state.syncing || state.has_before(number);
        let mut state = self.wait_while(state, busy);
        state.refuse_poisoned("barrier", "")?;
        let dirs = std::mem::take(&mut state.dirs_unsynced);
        state.syncing = true;
        drop(state);
        let result = sync(&dirs);
        let mut state = self.state.lock();
        state.syncing = false;
        drop(state);
        match &result {
            Ok(()) => {
                self.changed.notify_all();
            }
            Err(e) => self.poison(e),
        }
        result
    }

    fn wait_while<'a>(
        &self,
        mut state: MutexGuard<'a, QueueState>,
        condition: impl Fn(&QueueState) -> bool,
    ) -> MutexGuard<'a, QueueState> {
        self.changed
            .wait_while(&mut state, |state| condition(state));
        state
    }
}

/// A running job. If it is dropped without an end (its thread panicked), it counts as failed, so
/// that no barrier waits for it for ever.
pub(super) struct Running<'a> {
    queue: &'a Queue,
    number: u64,
    ended: bool,
}

impl Running<'_> {
    /// Ends the job. A failure is kept for the next caller.
    pub(super) fn end(mut self, result: Result<(), MediaError>) {
        self.ended = true;
        if let Err(e) = result {
            self.queue.poison(&e);
            self.queue.state.lock().first_error.get_or_insert(e);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let why = "the thread that wrote it panicked".to_owned();
            self.queue.fail(io::ErrorKind::Other, why);
        }
        self.queue.state.lock().running.remove(&self.number);
        self.queue.changed.notify_all();
    }
}
