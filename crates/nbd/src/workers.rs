//! Threads of one connection for requests that wait for a device.
//!
//! Invariant: at most [`IN_FLIGHT_MAX`] requests and [`IN_FLIGHT_BYTES_MAX`] bytes (or one
//! request) are under way; whoever hands in more waits, so the client does. A worker's panic
//! ends its connection and no other. Sessions call this; threads start with the first need.

use crate::buffers::Output;
use crate::command::Export;
use crate::stats::{Counters, Tally};
use crate::stream::Stream;
use crate::wire::requests::{Command, Request};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Threads of one connection.
const THREADS_MAX: usize = 16;
/// Output memory that each thread keeps between replies, bytes.
const OUTPUT_KEPT_BYTES: usize = 256 << 10;
/// Requests under way.
const IN_FLIGHT_MAX: usize = 64;
/// Bytes of their payloads and replies.
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;

/// Sends whole replies, from any thread.
pub(crate) struct Writer {
    stream: Arc<dyn Stream>,
    /// Held while a reply goes out; true after a send failed.
    broken: Mutex<bool>,
}

/// The client is gone, or does not read its replies.
pub(crate) struct Gone;

impl Writer {
    pub(crate) fn new(stream: Arc<dyn Stream>) -> Self {
        Self {
            stream,
            broken: Mutex::new(false),
        }
    }

    /// Sends all of `bytes`. After a failure the connection is down for everyone.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes;
        while !rest.is_empty() && !*broken {
            match self.stream.send(rest) {
                Ok(sent) if sent > 0 => rest = rest.get(sent..).unwrap_or_default(),
                Ok(_) | Err(_) => *broken = true,
            }
        }
        if *broken {
            self.stream.shutdown();
            return Err(Gone);
        }
        Ok(())
    }
}

/// A request that somebody else carries out.
struct Job {
    request: Request,
    payload: Vec<u8>,
    arrived: Instant,
    cost_bytes: u64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    bytes: u64,
    idle: usize,
    threads: usize,
    closed: bool,
}

struct Shared {
    export: Arc<Export>,
    writer: Arc<Writer>,
    counters: Arc<Counters>,
    state: Mutex<State>,
    /// Queued and running; changes under the lock, read without it.
    in_flight: AtomicUsize,
    work: Condvar,
    room: Condvar,
}

/// The threads and their queue.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut out = Output::new(OUTPUT_KEPT_BYTES);
        while let Some(job) = self.next() {
            let _running = Running(self, job.cost_bytes);
            let mut tally = Tally::default();
            self.export
                .execute(&job.request, &job.payload, &mut out, &mut tally);
            let sent = out.len();
            // The connection's thread notices that the client is gone.
            let _ = self.writer.send(out.as_bytes());
            self.counters.add(&mut tally, sent, job.arrived.elapsed());
            out.clear();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            let woken = self.work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// A job under way: gives its permit back when dropped, also by a panic.
struct Running<'a>(&'a Shared, u64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Its reply is missing or torn: the client must not wait for it.
            self.0.writer.stream.shutdown();
        }
        let mut state = self.0.lock();
        state.bytes = state.bytes.saturating_sub(self.1);
        self.0.in_flight.fetch_sub(1, Relaxed);
        self.0.room.notify_all();
    }
}

impl Workers {
    pub(crate) fn new(export: Arc<Export>, writer: Arc<Writer>, counters: Arc<Counters>) -> Self {
        let shared = Shared {
            export,
            writer,
            counters,
            state: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            work: Condvar::new(),
            room: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
        }
    }

    /// Requests handed in and not answered yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Relaxed)
    }

    /// Takes a request over; waits while too many are under way. False if there is no thread to
    /// do it.
    pub(crate) fn submit(&mut self, request: &Request, payload: &[u8], arrived: Instant) -> bool {
        let reply_bytes = match request.command == Command::Read as u16 {
            true => request.len_bytes,
            false => 0,
        };
        let cost_bytes = reply_bytes.saturating_add(payload.len() as u64);
        let mut state = self.shared.lock();
        loop {
            let in_flight = self.in_flight();
            let bytes = state.bytes.saturating_add(cost_bytes);
            if in_flight == 0 || (in_flight < IN_FLIGHT_MAX && bytes <= IN_FLIGHT_BYTES_MAX) {
                break;
            }
            let woken = self.shared.room.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if state.idle <= state.queue.len() && state.threads < THREADS_MAX {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("nbd-worker".to_owned());
            match thread.spawn(move || shared.run()) {
                Ok(handle) => {
                    self.threads.push(handle);
                    state.threads += 1;
                }
                Err(_) if state.threads == 0 => return false,
                Err(_) => {}
            }
        }
        state.bytes = state.bytes.saturating_add(cost_bytes);
        self.shared.in_flight.fetch_add(1, Relaxed);
        state.queue.push_back(Job {
            request: *request,
            payload: payload.to_vec(),
            arrived,
            cost_bytes,
        });
        drop(state);
        self.shared.work.notify_one();
        true
    }

    /// Waits until everything handed in was answered.
    pub(crate) fn finish(self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
        for thread in self.threads {
            // A panic was dealt with where it happened.
            let _ = thread.join();
        }
    }
}
