//! The thread that makes checkpoints: it destages volume writes from the journal to containers.
//! `serve` starts it.
//!
//! Invariant: it works in bounded steps while the journal asks for it. It also works when no client
//! has written for a while, then slowly if clients read. Otherwise, and after a failure, it waits.
//! A failure is reported once. Writes that cannot be destaged stay in the journal.

mod pace;

use super::background::Background;
use crate::failures::Failures;
use crate::meters::ExportMeters;
use crate::program::Program;
use crate::state::ServerState;
use pace::Pace;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;
use volumes::{CheckpointStep, Volumes};

/// Time without writes after which the volumes count as idle.
const IDLE: Duration = Duration::from_secs(10);
/// Time between two records of the access trace.
const TRACE_EVERY: Duration = Duration::from_secs(60);
/// Time between two checks for a stop request, while the disk is too full.
const HELD_BACK: Duration = Duration::from_millis(100);
/// Pause after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Starts the thread.
pub fn start(server: &Arc<ServerState>, program: &Arc<dyn Program>) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let volumes = Arc::clone(&server.volumes);
    let work = Work {
        meters: Arc::clone(&server.meters),
        failures: Arc::clone(&server.failures),
        volumes: Arc::clone(&volumes),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        said: None,
        kept: Vec::new(),
    };
    Background::start(
        "destage",
        interrupt,
        move || work.run(),
        move || volumes.wake(),
    )
}

struct Work {
    meters: Arc<ExportMeters>,
    failures: Arc<Failures>,
    volumes: Arc<Volumes>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    /// The failure that was reported last.
    said: Option<String>,
    /// The writes that cannot be destaged, as they were reported last.
    kept: Vec<String>,
}

impl Work {
    fn run(mut self) {
        let mut records = self.records();
        let mut traced = Instant::now();
        while !self.interrupt.requested() {
            let reads = self.meters.reads();
            if traced.elapsed() >= TRACE_EVERY {
                traced = Instant::now();
                // A lost trace costs heat data only.
                let _ = self.volumes.store_trace();
            }
            let pressed = self.volumes.wait_for_work(IDLE);
            let written = std::mem::replace(&mut records, self.records()) != records;
            let idle = !pressed && !written && self.is_dirty();
            // The remaining disk space belongs to gc, which makes checkpoints itself.
            if self.volumes.wait_while_held_back(HELD_BACK) {
                continue;
            }
            // A checkpoint may have become due between two waits without a wake-up.
            let due = idle || self.volumes.wants_checkpoint(false);
            if due && !self.interrupt.requested() {
                self.checkpoint(Pace::new(idle, reads));
            }
        }
    }

    /// Makes steps until the journal asks for no more. A background checkpoint goes on until
    /// nothing is left or a client writes.
    fn checkpoint(&mut self, mut pace: Pace) {
        let records = self.records();
        while !self.interrupt.requested() && !self.volumes.wait_while_held_back(Duration::ZERO) {
            let bytes = pace.step_bytes(self.meters.reads());
            let began = Instant::now();
            match self.volumes.step(bytes) {
                Ok(CheckpointStep::Working) => {
                    let rest = pace.rest(began.elapsed());
                    let pressed = !rest.is_zero() && self.volumes.wait_for_work(rest);
                    // Writers have come, and their writes need space in the journal.
                    if pressed || self.volumes.wants_checkpoint(false) {
                        pace.hurry();
                    }
                }
                Ok(CheckpointStep::Idle) => {
                    self.say_kept();
                    return;
                }
                Ok(CheckpointStep::Committed) => {
                    self.said = None;
                    self.failures.checkpoints.clear();
                    let go_on = match pace.is_background() {
                        true => self.records() == records,
                        false => self.volumes.wants_checkpoint(true),
                    };
                    if !go_on {
                        return;
                    }
                }
                Err(e) => {
                    self.say(&e.to_string());
                    // Even if writers need space: the next try would fail again.
                    self.interrupt.wait(FAILED_PAUSE);
                    return;
                }
            }
        }
    }

    /// Reports new writes that cannot be destaged.
    fn say_kept(&mut self) {
        let kept = self.volumes.kept_writes();
        let kept: Vec<_> = kept.iter().map(ToString::to_string).collect();
        for one in kept.iter().filter(|one| !self.kept.contains(one)) {
            self.program.warn(format_args!("{one}"));
        }
        self.kept = kept;
    }

    fn say(&mut self, failure: &str) {
        self.failures.checkpoints.note(failure.to_owned());
        if self.said.as_deref() != Some(failure) {
            self.program.warn(format_args!(
                "the writes of volumes stay in the journal: {failure}"
            ));
            self.said = Some(failure.to_owned());
        }
    }

    fn records(&self) -> u64 {
        self.volumes.journal_usage().records
    }

    fn is_dirty(&self) -> bool {
        let volumes = self.volumes.list();
        volumes.iter().any(|volume| volume.pieces_unapplied > 0)
    }
}
