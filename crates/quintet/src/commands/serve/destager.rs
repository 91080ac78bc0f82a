//! The thread that turns what volumes have written into containers.
//!
//! Invariant: works in bounded steps while the journal asks for it, and when nobody has written for
//! a while, slowly then if clients read; waits otherwise, and after a failure, which is said once. What it
//! cannot do stays in the journal. Called by `serve`.

mod pace;

use crate::console::Console;
use crate::held::Held;
use pace::Pace;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use volumes::{Step, Volumes};

/// Who has not written for so long is idle.
const IDLE: Duration = Duration::from_secs(10);
/// Time between two records of what was read.
const TRACE_EVERY: Duration = Duration::from_secs(60);
/// Waits for room, between looks at the wish to stop.
const HELD_BACK: Duration = Duration::from_millis(100);
/// Time between two tries of what failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// See the module's head. Dropping it stops the thread.
pub struct Destager {
    volumes: Arc<Volumes>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Destager {
    /// Starts the thread.
    pub fn start(held: &Arc<Held>, console: &Arc<Console>) -> io::Result<Self> {
        let volumes = Arc::clone(&held.volumes);
        let stopping = Arc::new(AtomicBool::new(false));
        let work = Work {
            held: Arc::clone(held),
            volumes: Arc::clone(&volumes),
            console: Arc::clone(console),
            stopping: Arc::clone(&stopping),
            said: None,
            kept: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("destage".to_owned())
            .spawn(move || work.run())?;
        Ok(Self {
            volumes,
            stopping,
            thread: Some(thread),
        })
    }
}

impl Drop for Destager {
    fn drop(&mut self) {
        self.stopping.store(true, Relaxed);
        self.volumes.wake();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Work {
    held: Arc<Held>,
    volumes: Arc<Volumes>,
    console: Arc<Console>,
    stopping: Arc<AtomicBool>,
    /// The failure that was said last.
    said: Option<String>,
    /// What cannot be checkpointed, as it was said last.
    kept: Vec<String>,
}

impl Work {
    fn run(mut self) {
        let mut records = self.records();
        let mut traced = Instant::now();
        while !self.stopping.load(Relaxed) {
            let reads = self.held.reads_asked();
            if traced.elapsed() >= TRACE_EVERY {
                traced = Instant::now();
                // It costs heat only.
                let _ = self.volumes.store_trace();
            }
            let pressed = self.volumes.wait_for_work(IDLE);
            let written = std::mem::replace(&mut records, self.records()) != records;
            let idle = !pressed && !written && self.is_dirty();
            // What is left of the disk is the collector's; it makes checkpoints itself.
            if self.volumes.wait_while_held_back(HELD_BACK) {
                continue;
            }
            // Between two waits a checkpoint may have become due without a call.
            let due = idle || self.volumes.wants_checkpoint(false);
            if due && !self.stopping.load(Relaxed) {
                self.checkpoint(Pace::new(idle, reads));
            }
        }
    }

    /// Steps until the journal asks for no more; when nobody waits for that, until there is nothing left or
    /// somebody writes.
    fn checkpoint(&mut self, mut pace: Pace) {
        let records = self.records();
        while !self.stopping.load(Relaxed) && !self.volumes.wait_while_held_back(Duration::ZERO) {
            let bytes = pace.step_bytes(self.held.reads_asked());
            let began = Instant::now();
            match self.volumes.step(bytes) {
                Ok(Step::Working) => {
                    let rest = pace.rest(began.elapsed());
                    let pressed = !rest.is_zero() && self.volumes.wait_for_work(rest);
                    // Writers have come, and what they write needs room.
                    if pressed || self.volumes.wants_checkpoint(false) {
                        pace.hurry();
                    }
                }
                Ok(Step::Idle) => {
                    self.say_kept();
                    return;
                }
                Ok(Step::Committed) => {
                    self.said = None;
                    self.held.stuck.clear();
                    let go_on = match pace.nobody_waits() {
                        true => self.records() == records,
                        false => self.volumes.wants_checkpoint(true),
                    };
                    if !go_on {
                        return;
                    }
                }
                Err(e) => {
                    self.say(&e.to_string());
                    self.pause();
                    return;
                }
            }
        }
    }

    /// Says what cannot be checkpointed, once.
    fn say_kept(&mut self) {
        let kept = self.volumes.kept_writes();
        let kept: Vec<_> = kept.iter().map(ToString::to_string).collect();
        for one in kept.iter().filter(|one| !self.kept.contains(one)) {
            self.console.warn(format_args!("{one}"));
        }
        self.kept = kept;
    }

    fn say(&mut self, failure: &str) {
        self.held.stuck.note(failure.to_owned());
        if self.said.as_deref() != Some(failure) {
            let console = &self.console;
            console.warn(format_args!(
                "what volumes wrote stays in the journal: {failure}"
            ));
            self.said = Some(failure.to_owned());
        }
    }

    /// Writers that press do not end this: what failed would fail again.
    fn pause(&self) {
        let until = std::time::Instant::now() + FAILED_PAUSE;
        while !self.stopping.load(Relaxed) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    fn records(&self) -> u64 {
        self.volumes.journal_usage().records
    }

    fn is_dirty(&self) -> bool {
        let volumes = self.volumes.list();
        volumes.iter().any(|volume| volume.pieces_unfolded > 0)
    }
}
