//! The threads of a patient disk: they execute requests, and wait for those that were given up.
//! `patient_disk` calls this.
//!
//! Invariant: `late` counts exactly the requests that were given up and have not ended.

use media::MediaError;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Maximum number of threads. Each holds a request of a caller, or one that hangs.
const THREADS_MAX: usize = 64;
/// How long a thread without work stays.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A request took longer than this, or another one does.
pub(super) struct Late(pub Duration);

impl Late {
    pub fn error(&self, operation: &'static str, path: &str) -> MediaError {
        let Self(limit) = self;
        let why = format!("the device does not answer: a request took more than {limit:.1?}");
        MediaError::from_io(
            operation,
            path,
            io::Error::new(io::ErrorKind::TimedOut, why),
        )
    }
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Work>,
    pub threads: usize,
    idle: usize,
}

#[derive(Default)]
pub(super) struct Threads {
    pub queue: Mutex<Queue>,
    work: Condvar,
    /// Requests that were given up and have not ended.
    pub late: AtomicUsize,
}

/// Result of a request, for the caller that waits.
struct Outcome<T> {
    state: Mutex<RequestState<T>>,
    changed: Condvar,
}

enum RequestState<T> {
    Running,
    Done(T),
    GivenUp,
}

impl Threads {
    /// Fails at once while a request is late.
    pub fn is_answering(self: &Arc<Self>, limit: Duration) -> Result<(), Late> {
        if self.late.load(Relaxed) == 0 {
            return Ok(());
        }
        // A late request counts until a thread has seen its end. None could be started, perhaps.
        let mut queue = self.queue.lock();
        if queue.threads == 0 {
            self.staff(&mut queue);
        }
        Err(Late(limit))
    }

    /// Lets a thread wait for the end of a read that was given up.
    pub fn end(self: &Arc<Self>, running: Box<dyn Send>) {
        self.late.fetch_add(1, Relaxed);
        let shared = Arc::clone(self);
        self.submit(Box::new(move || {
            drop(running);
            shared.late.fetch_sub(1, Relaxed);
        }));
    }

    /// Executes `work` on another thread.
    pub fn within<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Late> {
        self.is_answering(limit)?;
        let outcome = Arc::new(Outcome {
            state: Mutex::new(RequestState::Running),
            changed: Condvar::new(),
        });
        let (result, shared) = (Arc::clone(&outcome), Arc::clone(self));
        self.submit(Box::new(move || {
            let value = work();
            let mut state = result.state.lock();
            match *state {
                RequestState::GivenUp => drop(shared.late.fetch_sub(1, Relaxed)),
                RequestState::Running | RequestState::Done(_) => *state = RequestState::Done(value),
            }
            drop(state);
            result.changed.notify_one();
        }));
        let mut state = outcome.state.lock();
        let is_running = |state: &mut RequestState<T>| matches!(state, RequestState::Running);
        outcome
            .changed
            .wait_while_for(&mut state, is_running, limit);
        match std::mem::replace(&mut *state, RequestState::GivenUp) {
            RequestState::Done(value) => Ok(value),
            RequestState::Running | RequestState::GivenUp => {
                self.late.fetch_add(1, Relaxed);
                Err(Late(limit))
            }
        }
    }

    fn submit(self: &Arc<Self>, work: Work) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(work);
        self.staff(&mut queue);
        drop(queue);
        self.work.notify_one();
    }

    /// Starts a thread if those that are idle cannot take all that waits.
    fn staff(self: &Arc<Self>, queue: &mut Queue) {
        if queue.idle < queue.waiting.len() && queue.threads < THREADS_MAX {
            let shared = Arc::clone(self);
            let thread = thread::Builder::new().name("patient-disk".to_owned());
            // Without a new thread the request waits for one that is there, or is given up.
            if thread.spawn(move || shared.serve()).is_ok() {
                queue.threads += 1;
            }
        }
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                drop(queue);
                work();
                queue = self.queue.lock();
                continue;
            }
            queue.idle += 1;
            let waited = self.work.wait_for(&mut queue, IDLE_LIMIT);
            queue.idle -= 1;
            if waited.timed_out() && queue.waiting.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}
