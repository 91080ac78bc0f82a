//! Connects a task's thread with the world: the task runs only while the world waits for it.
//!
//! The controller of `maintenance` calls [`VirtualHost`] in the task's thread; the world calls
//! [`Link`].
//! Invariant: at most one thread of a world runs at any time, so a run depends on nothing but its
//! arguments. Time passes only while the task waits here. It holds no lock of the store then.

use super::medium::{Charge, Medium};
use crate::disk::Ns;
use maintenance::{Host, IoGrant};
use qos::Flow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Result of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// It has done all.
    pub is_complete: bool,
    /// It failed, which no run should.
    pub has_failed: bool,
    /// Bytes that it would have read and written with nothing in memory.
    pub work_bytes: u64,
}

/// A need of a task that the world serves.
pub enum Ask {
    /// An I/O grant for this many bytes. It goes on and waits for it later.
    Grant { bytes: u64 },
    /// It waits for its grant until this time.
    Wait { until: Ns },
    /// The time of these requests, which its code has made.
    Requests(Vec<Charge>),
    /// Whether its grant goes on.
    GoesOn,
    /// Its grant ends.
    Leave,
    /// It has nothing to do before this time.
    Sleep { until: Ns },
    /// It has ended: all is done, or it was stopped.
    Ended(Done),
}

/// The world's answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// The time now.
    pub now: Ns,
    /// The grant goes on.
    pub goes_on: bool,
    /// The grant that it waited for is there.
    pub is_granted: bool,
    /// The task should stop.
    pub stops: bool,
}

/// The world's end.
pub struct Link {
    answers: Sender<Answer>,
    asks: Receiver<Ask>,
    thread: Option<JoinHandle<()>>,
}

/// The task's end, in its thread.
pub struct VirtualHost {
    medium: Arc<Medium>,
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    last: Cell<Answer>,
}

impl Link {
    /// Starts a thread that runs a task. It begins with the first [`Link::resume`].
    pub fn start(
        medium: &Arc<Medium>,
        run: impl FnOnce(&VirtualHost) -> Done + Send + 'static,
    ) -> Self {
        let (answers, from_world) = channel();
        let (to_world, asks) = channel();
        let medium = Arc::clone(medium);
        let thread = std::thread::spawn(move || {
            let host = VirtualHost {
                medium,
                asks: to_world,
                answers: from_world,
                last: Cell::default(),
            };
            host.last.set(host.answers.recv().unwrap_or(STOP));
            let done = run(&host);
            host.settle();
            // The world may have ended.
            let _ = host.asks.send(Ask::Ended(done));
        });
        Self {
            answers,
            asks,
            thread: Some(thread),
        }
    }

    /// Lets the task run until it needs something. `None`: its thread has ended.
    pub fn resume(&self, answer: Answer) -> Option<Ask> {
        self.answers.send(answer).ok()?;
        self.asks.recv().ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A task that is still there gets no answer any more, which stops it.
        let (closed, _) = channel();
        self.answers = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer of a world that has ended.
const STOP: Answer = Answer {
    now: 0,
    goes_on: false,
    is_granted: false,
    stops: true,
};

impl VirtualHost {
    fn tell(&self, ask: Ask) -> Answer {
        let before = self.last.get();
        let stop = Answer {
            now: before.now,
            ..STOP
        };
        let answer = match before.stops || self.asks.send(ask).is_err() {
            true => stop,
            false => self.answers.recv().unwrap_or(stop),
        };
        self.last.set(answer);
        answer
    }

    /// Lets the time of the last requests pass.
    fn settle(&self) {
        if self.last.get().stops {
            return;
        }
        let charges = self.medium.take();
        if !charges.is_empty() {
            self.tell(Ask::Requests(charges));
        }
    }
}

impl Host for VirtualHost {
    fn now_ns(&self) -> u64 {
        self.settle();
        self.last.get().now
    }

    fn is_to_stop(&self) -> bool {
        self.settle();
        self.last.get().stops
    }

    fn ask(&self, _: Flow, bytes: u64) -> Option<Box<dyn IoGrant + '_>> {
        self.settle();
        self.tell(Ask::Grant { bytes });
        Some(Box::new(VirtualGrant(self)))
    }

    fn wait_until(&self, until: Ns) {
        self.settle();
        self.tell(Ask::Sleep { until });
    }
}

struct VirtualGrant<'a>(&'a VirtualHost);

impl IoGrant for VirtualGrant<'_> {
    fn wait(&mut self, at_most: Duration) -> bool {
        let at_most = Ns::try_from(at_most.as_nanos()).unwrap_or(Ns::MAX);
        let until = self.0.now_ns().saturating_add(at_most);
        self.0.tell(Ask::Wait { until }).is_granted
    }

    fn goes_on(&self) -> bool {
        self.0.settle();
        self.0.tell(Ask::GoesOn).goes_on
    }
}

impl Drop for VirtualGrant<'_> {
    fn drop(&mut self) {
        self.0.settle();
        self.0.tell(Ask::Leave);
    }
}
