//! The defragmentation that a command runs in a server: how far it is, and its switch.
//!
//! Invariant: one run at a time; a run that is paused has made what it copied count. Called by `defrag` and
//! `status`.

use anyhow::bail;
use maintenance::{DefragReport, DefragStage};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
struct State {
    is_running: bool,
    is_paused: bool,
    /// Of the run that goes on, or else of the last one.
    report: Option<DefragReport>,
}

/// See the module's head.
#[derive(Default)]
pub struct Defragmenting {
    state: Mutex<State>,
    changed: Condvar,
}

/// A run; the next one may begin when this is dropped.
pub struct Running<'a>(&'a Defragmenting);

/// For who asks.
#[derive(Clone, Copy, Debug)]
pub struct DefragStatus {
    /// A run goes on, or is paused.
    pub is_running: bool,
    /// Its switch.
    pub is_paused: bool,
    /// What it has done.
    pub report: DefragReport,
}

impl Defragmenting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins a run; refuses a second one.
    pub fn begin(&self) -> anyhow::Result<Running<'_>> {
        let mut state = self.state();
        if state.is_running {
            bail!("the server is defragmenting already (see quintet status)");
        }
        *state = State {
            is_running: true,
            ..State::default()
        };
        Ok(Running(self))
    }

    /// Lets the run that goes on stop, or go on; false when there is none.
    pub fn pause(&self, is_paused: bool) -> bool {
        let mut state = self.state();
        state.is_paused = is_paused && state.is_running;
        self.changed.notify_all();
        state.is_running
    }

    /// `None`: there was none since the server began.
    pub fn status(&self) -> Option<DefragStatus> {
        let state = self.state();
        state.report.map(|report| DefragStatus {
            is_running: state.is_running,
            is_paused: state.is_paused,
            report,
        })
    }
}

impl Running<'_> {
    /// How far it is.
    pub fn tell(&self, report: &DefragReport) {
        self.0.state().report = Some(*report);
    }

    /// True while it is to stand still; returns when that changes, or after so long.
    pub fn is_paused(&self, at_most: Duration) -> bool {
        let state = self.0.state();
        if !state.is_paused {
            return false;
        }
        let waited = self.0.changed.wait_timeout(state, at_most);
        waited.unwrap_or_else(|e| e.into_inner()).0.is_paused
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_running = false;
        state.is_paused = false;
    }
}

impl DefragStatus {
    /// In one line.
    pub fn line(&self) -> String {
        let report = &self.report;
        let at = format!("{} of {} ranges", report.ranges_done, report.ranges);
        let copied = crate::sizes::display(report.moved.bytes);
        let doing = match report.stage {
            DefragStage::Sizing => "looking what there is".to_owned(),
            DefragStage::Examining => format!("looking at {at}"),
            DefragStage::Judging => "asking whom moves would hurt".to_owned(),
            DefragStage::Moving => "copying".to_owned(),
            DefragStage::Measuring => format!("measuring, {at}"),
            DefragStage::Done => "done".to_owned(),
        };
        match (self.is_running, self.is_paused) {
            (true, true) => format!("paused; {copied} copied (go on: quintet defrag --resume)"),
            (true, false) => format!("{doing}; {copied} copied"),
            (false, _) => format!(
                "last run copied {copied}: {:.1} device reads a request before, {:.1} after",
                report.before.reads() / report.before.requests().max(1.0),
                report.after.reads() / report.after.requests().max(1.0)
            ),
        }
    }
}
