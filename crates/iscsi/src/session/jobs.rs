//! Runs jobs of commands on this thread if they need not wait, and hands the others to workers. The
//! full feature phase calls this.
//!
//! Invariant: a job starts when all of its data has arrived, the commands that go before it have
//! ended, no other initiator has aborted it, and reservations still allow it. Data that is still in
//! the input is not copied unless a worker needs it. Data that came without being asked for has
//! memory of the connection's own, or of a pool that is only for such data: so its holders may wait
//! for the memory of data that is asked for, and none of those waits for them.

use super::incoming::Pending;
use super::state::{CommandOrder, FullFeature, Payload, READS, WRITES};
use crate::answers::Answered;
use crate::scsi::action::{Job, Refusal, Work};
use crate::scsi::sense::Sense;
use crate::scsi::task_set::{Attribute, Facts, Ticket};
use crate::scsi::unit::Unit;
use crate::stats::{Kind, failed};
use crate::wire::pdu::PduHeader;
use crate::workers::{Task, TaskWork, execute};
use connections::{Disconnected, Lease};
use std::sync::Arc;

impl FullFeature<'_> {
    pub(super) fn refuse(&mut self, answered: Answered, refusal: Refusal, unit: &Unit) {
        failed(&mut self.tally);
        answered.refuse(&mut self.replies, refusal, Some(unit));
    }

    /// Enters a command of a unit among those that have not ended.
    fn enter(&self, unit: &Unit, tag: u32, attribute: Attribute, work: Option<&Work>) -> Ticket {
        let nexus = &self.workers.service().nexus;
        nexus.tasks.enter(Facts {
            tag,
            unit: unit.number(),
            attribute,
            is_awaited: !matches!(work, Some(Work::PersistentOut { .. })),
        })
    }

    /// Returns true if a command that has just arrived need not wait for older ones.
    pub(super) fn may_begin(&self, unit: &Unit, attribute: Attribute) -> bool {
        let nexus = &self.workers.service().nexus;
        nexus.tasks.may_begin(unit.number(), attribute)
    }

    pub(super) fn task(
        &self,
        unit: Arc<Unit>,
        work: TaskWork,
        answered: Answered,
        (order, leases): (CommandOrder, Vec<Lease>),
    ) -> Task {
        let entered = match &work {
            TaskWork::Job(job, _) => Some(&job.work),
            TaskWork::Reply(_) | TaskWork::Read(_) => None,
        };
        let ticket = match order {
            CommandOrder::Entered(ticket) => ticket,
            CommandOrder::Now(attribute) => self.enter(&unit, answered.tag, attribute, entered),
        };
        Task {
            unit,
            work,
            answered,
            leases,
            place: self.workers.service().sender.window.enter(),
            ticket,
        }
    }

    pub(super) fn hand_over(&mut self, task: Task) -> Result<(), Disconnected> {
        if let Err(task) = self.workers.submit(task) {
            // No thread can be started, so later commands wait behind this one.
            self.flush()?;
            let service = self.workers.service();
            let (replies, tally) = (&mut self.replies, &mut self.tally);
            let Task {
                unit,
                work,
                answered,
                leases,
                ticket,
                ..
            } = *task;
            let _leases = service.lease(leases, &work, &answered, &ticket)?;
            match ticket.is_ready() {
                false => answered.busy(replies),
                true if !ticket.begin() => answered.aborted(replies),
                true => {
                    let task = (&*unit, &work, &ticket);
                    execute(service, task, answered, replies, tally);
                }
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Starts a job: runs it, hands it over, or waits for its data.
    pub(super) fn job(
        &mut self,
        unit: Arc<Unit>,
        header: &PduHeader,
        job: Job,
        (data, unsolicited): (&[u8], u64),
        attribute: Attribute,
    ) -> Result<(), Disconnected> {
        let expected = u64::from(header.u32_at::<20>());
        let sent = if header.flags() & WRITES != 0 {
            expected
        } else {
            0
        };
        let mut answered = Answered {
            tag: header.tag(),
            expected_bytes: if job.data_bytes == 0 { expected } else { sent },
            command_bytes: job.data_bytes,
            transfers: 0,
        };
        let transfer = sent.min(job.data_bytes);
        if job.work.is_exact() && sent != job.data_bytes {
            self.refuse(answered, Sense::INVALID_FIELD_IN_CDB.into(), &unit);
            return Ok(());
        }
        let is_part = transfer % unit.block_bytes() != 0 || !job.work.takes_less();
        if transfer < job.data_bytes && is_part {
            failed(&mut self.tally);
            let refusal = Sense::INVALID_FIELD_IN_UNIT.into();
            answered.refuse_as_is(&mut self.replies, refusal, Some(&unit));
            return Ok(());
        }
        if job.data_bytes == 0 && header.flags() & READS == 0 {
            answered.expected_bytes = sent;
        }
        let at_hand = data.len().min(transfer as usize);
        let data = data.get(..at_hand).unwrap_or_default();
        if at_hand as u64 == transfer {
            let order = CommandOrder::Now(attribute);
            return self.start(unit, job, Payload::Here(data), answered, (order, vec![]));
        }
        let lease = match at_hand as u64 + unsolicited {
            0 => None,
            bytes => match self.lease_burst(bytes) {
                None => {
                    self.full(answered);
                    return Ok(());
                }
                lease => lease,
            },
        };
        if let Some(lease) = lease.as_ref().filter(|_| unsolicited > 0) {
            lease.transfer(unsolicited);
        }
        let ticket = self.enter(&unit, header.tag(), attribute, Some(&job.work));
        let data = (data, unsolicited);
        let pending = Pending::new(unit, header, job, answered, transfer, data, (ticket, lease));
        let place = self.workers.service().sender.window.enter();
        self.incoming.insert(pending, place);
        self.solicit()
    }

    /// Leases memory for data that was not asked for, if there is some. Memory of the connection's
    /// own is always there again after a while, so that its initiator succeeds.
    fn lease_burst(&self, bytes: u64) -> Option<Lease> {
        let own = self.session.context.changes.try_own(bytes);
        own.or_else(|| self.session.bursts.try_take(bytes))
    }

    /// Refuses a command until others of this initiator have ended: there is no memory for its
    /// data. The rest of its data is ignored.
    fn full(&mut self, answered: Answered) {
        failed(&mut self.tally);
        answered.full(&mut self.replies);
    }

    /// Runs a job that has its data, or hands it over.
    pub(super) fn start(
        &mut self,
        unit: Arc<Unit>,
        job: Job,
        data: Payload<'_>,
        answered: Answered,
        (order, mut leases): (CommandOrder, Vec<Lease>),
    ) -> Result<(), Disconnected> {
        let may_begin = match &order {
            CommandOrder::Now(attribute) => self.may_begin(&unit, *attribute),
            CommandOrder::Entered(ticket) if ticket.is_aborted() => {
                failed(&mut self.tally);
                answered.aborted(&mut self.replies);
                return Ok(());
            }
            CommandOrder::Entered(ticket) => ticket.is_ready() && ticket.begin(),
        };
        if may_begin {
            let nexus = &self.workers.service().nexus;
            match unit.run(nexus, &job, data.bytes(), None) {
                Ok(Some(_)) => {
                    self.tally.done(Kind::of(&job), data.bytes().len() as u64);
                    answered.good(&mut self.replies);
                    return Ok(());
                }
                Ok(None) => {}
                Err(refusal) => {
                    self.refuse(answered, refusal, &unit);
                    return Ok(());
                }
            }
        }
        if let Payload::Here(data) = data {
            let Some(lease) = self.lease_burst(data.len() as u64) else {
                self.full(answered);
                return Ok(());
            };
            leases.push(lease);
        }
        // A worker begins it when those before it have ended, or answers that it is aborted.
        let work = TaskWork::Job(job, data.into_vec());
        let task = self.task(unit, work, answered, (order, leases));
        self.hand_over(task)
    }
}
