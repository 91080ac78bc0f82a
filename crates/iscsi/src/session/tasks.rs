//! Handles task management: aborts and resets. The full feature phase calls this.
//!
//! Invariant: no answer of an aborted task of this session follows the response. Tasks of other
//! sessions that are aborted are answered with TASK ABORTED (TAS = 1). The response waits until a
//! task that has begun has ended, after its present piece.

use super::state::{FullFeature, Next};
use crate::replies::Numbering;
use crate::scsi::action::Refusal;
use crate::scsi::task_set::TaskSet;
use crate::scsi::unit::Unit;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use connections::Disconnected;
use std::sync::Arc;

/// Functions (RFC 7143, 11.5.1).
mod function {
    pub(super) const ABORT_TASK: u8 = 1;
    pub(super) const ABORT_TASK_SET: u8 = 2;
    pub(super) const CLEAR_TASK_SET: u8 = 4;
    pub(super) const UNIT_RESET: u8 = 5;
    pub(super) const WARM_RESET: u8 = 6;
    pub(super) const COLD_RESET: u8 = 7;
    pub(super) const REASSIGN: u8 = 8;
}

/// Results (RFC 7143, 11.6.1).
#[derive(Clone, Copy)]
#[repr(u8)]
enum Outcome {
    Complete = 0,
    NoSuchTask = 1,
    NoSuchUnit = 2,
    NoReassignment = 4,
    NotSupported = 5,
    NotAuthorized = 6,
    Rejected = 255,
}

impl FullFeature<'_> {
    pub(super) fn task_management(&mut self, header: &PduHeader) -> Result<Next, Disconnected> {
        // Answers of finished commands go first.
        self.flush()?;
        let function = header.flags() & 0x7f;
        let outcome = match function {
            function::ABORT_TASK => self.abort_task(header.u32_at::<20>()),
            function::ABORT_TASK_SET => self.abort_own(header.lun()),
            function::CLEAR_TASK_SET => self.abort_all(header.lun()),
            function::UNIT_RESET => self.reset_unit(header.lun()),
            function::WARM_RESET => {
                self.workers.cancel(|_| true);
                self.incoming.abort(None, None);
                self.tasks().stop(|_| true);
                self.workers.wait_for_running(|_| true);
                let all = self.units.iter();
                let reset = all.map(|(_, unit)| {
                    self.abort_others(unit);
                    unit.reset_and_settle()
                });
                outcome_of(reset.fold(Ok(()), Result::and))
            }
            // It would end the sessions of all initiators of the target. No initiator that Quintet
            // knows sends it, and one client must not be able to disconnect the others.
            function::COLD_RESET => Outcome::NotAuthorized,
            function::REASSIGN => Outcome::NoReassignment,
            _ => Outcome::NotSupported,
        };
        let answer = PduHeader::new(response::TASK_MANAGEMENT, FINAL)
            .with_u8::<2>(outcome as u8)
            .with_tag(header.tag())
            .with_u32::<20>(NO_TAG);
        self.replies.push(answer, Numbering::Takes, &[]);
        self.solicit()?;
        Ok(Next::Continue)
    }

    fn abort_task(&mut self, tag: u32) -> Outcome {
        let dropped = self.incoming.abort(None, Some(tag));
        let cancelled = self.workers.cancel(|task| task.answered.tag == tag);
        let stopped = self.tasks().stop(|facts| facts.tag == tag);
        self.workers.wait_for_running(|(running, _)| running == tag);
        match dropped + cancelled + stopped {
            0 => Outcome::NoSuchTask,
            _ => Outcome::Complete,
        }
    }

    fn tasks(&self) -> &TaskSet {
        &self.workers.service().nexus.tasks
    }

    fn abort_own(&mut self, lun: u64) -> Outcome {
        let Some(unit) = self.unit(lun) else {
            return Outcome::NoSuchUnit;
        };
        // The younger first: the end of one that waits for its data lets others begin.
        self.workers.cancel(|task| Arc::ptr_eq(&task.unit, &unit));
        self.incoming.abort(Some(lun), None);
        self.tasks().stop(|facts| facts.unit == unit.number());
        self.workers
            .wait_for_running(|(_, number)| number == unit.number());
        Outcome::Complete
    }

    fn abort_others(&self, unit: &Unit) {
        unit.abort_others(&self.workers.service().nexus, |_| true);
    }

    /// Aborts the tasks of all sessions.
    fn abort_all(&mut self, lun: u64) -> Outcome {
        let outcome = self.abort_own(lun);
        if let Some(unit) = self.unit(lun) {
            self.abort_others(&unit);
        }
        outcome
    }

    fn reset_unit(&mut self, lun: u64) -> Outcome {
        match self.unit(lun) {
            Some(unit) => {
                self.abort_all(lun);
                outcome_of(unit.reset_and_settle())
            }
            None => Outcome::NoSuchUnit,
        }
    }
}

/// A reset that cannot make the writes of the cache durable is not complete.
fn outcome_of(reset: Result<(), Refusal>) -> Outcome {
    match reset {
        Ok(()) => Outcome::Complete,
        Err(_) => Outcome::Rejected,
    }
}
