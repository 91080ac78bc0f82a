//! Takes SCSI commands: finds their unit, has them admitted, and executes them or hands them on.
//! The full feature phase calls this.
//!
//! Invariant: memory beyond the connection's own is leased before it is used. This thread does not
//! wait for it: a worker does. No read of a disconnected initiator is begun: this thread
//! checks before a large one, and once in a while before small ones.

use super::state::{CommandOrder, FullFeature, Next, READS, WRITES};
use crate::answers::Answered;
use crate::scsi::action::{Action, Span};
use crate::scsi::cdb::{Cdb, Command};
use crate::scsi::inquiry;
use crate::scsi::reservations::Use;
use crate::scsi::sense::Sense;
use crate::scsi::task_set::Attribute;
use crate::scsi::unit::Unit;
use crate::sender::DEPTH;
use crate::stats::{Kind, failed};
use crate::wire::pdu::PduHeader;
use crate::wire::reject::Reason;
use crate::workers::TaskWork;
use connections::{Disconnected, Input, Lane, SMALL_REPLY_BYTES};
use std::sync::Arc;
use volume::Volume;

impl FullFeature<'_> {
    /// Handles a SCSI Command. `next_follows`: more has arrived after it.
    pub(super) fn command(
        &mut self,
        header: &PduHeader,
        data: &[u8],
        next_follows: bool,
    ) -> Result<Next, Disconnected> {
        let flags = header.flags();
        let expected = u64::from(header.u32_at::<20>());
        let writes = flags & WRITES != 0;
        let first_burst = u64::from(self.parameters.first_burst_bytes).min(expected);
        let is_sound = (data.is_empty() || (writes && self.parameters.immediate_data))
            && data.len() as u64 <= first_burst
            && (header.is_final() || (writes && !self.parameters.initial_r2t));
        let tasks = &self.workers.service().nexus.tasks;
        // A tag that is in use would name two tasks (RFC 7143, 11.2.1.8).
        if !is_sound || tasks.contains(header.tag()) {
            return Ok(Next::Broken(Reason::ProtocolError));
        }
        if self.is_full() {
            self.reject(header, Reason::TooManyImmediate);
            return Ok(Next::Continue);
        }
        let answered = Answered {
            tag: header.tag(),
            expected_bytes: expected,
            command_bytes: 0,
            transfers: 0,
        };
        let cdb = Cdb(header.cdb());
        let Some(unit) = self.unit(header.lun()) else {
            self.without_unit(&cdb, answered);
            return Ok(Next::Continue);
        };
        let attribute = Attribute::decode(flags);
        // Others without blocks need no order: initiators cannot tell the difference.
        let must_wait = attribute == Attribute::Ordered && !self.may_begin(&unit, attribute);
        let nexus = &self.workers.service().nexus;
        match unit.admit(nexus, &cdb, &self.numbers) {
            Err(refusal) => self.refuse(answered, refusal, &unit),
            Ok(Action::Good) if must_wait => self.hold(unit, answered, attribute, Vec::new())?,
            Ok(Action::Good) => {
                self.tally.done(Kind::Other, 0);
                answered.good(&mut self.replies);
            }
            Ok(Action::Data(reply)) => {
                let answered = of_reply(answered, flags, &reply);
                match must_wait {
                    true => self.hold(unit, answered, attribute, reply)?,
                    false => self.reply(answered, &reply),
                }
            }
            Ok(Action::Read(span)) => {
                let answered = Answered {
                    expected_bytes: if flags & READS != 0 { expected } else { 0 },
                    command_bytes: span.len_bytes,
                    ..answered
                };
                self.read(unit, span, answered, (attribute, next_follows))?;
            }
            Ok(Action::Job(job)) => {
                let unsolicited = match header.is_final() {
                    true => 0,
                    false => first_burst - data.len() as u64,
                };
                self.job(unit, header, job, (data, unsolicited), attribute)?;
            }
        }
        Ok(Next::Continue)
    }

    /// Returns true if immediate commands filled more than the window.
    fn is_full(&self) -> bool {
        self.workers.in_flight_all() + self.incoming.len() >= 2 * DEPTH as usize
    }

    /// Answers a command when those before it have ended.
    fn hold(
        &mut self,
        unit: Arc<Unit>,
        answered: Answered,
        attribute: Attribute,
        reply: Vec<u8>,
    ) -> Result<(), Disconnected> {
        let order = (CommandOrder::Now(attribute), vec![]);
        let task = self.task(unit, TaskWork::Reply(reply), answered, order);
        self.hand_over(task)
    }

    fn reply(&mut self, answered: Answered, reply: &[u8]) {
        self.tally.done(Kind::Other, 0);
        let segments = &self.workers.service().segments;
        answered.data(&mut self.replies, segments, reply);
    }

    /// Answers a command for a unit that does not exist (SPC-4, 4.4).
    fn without_unit(&mut self, cdb: &Cdb, answered: Answered) {
        let (reply, allocation) = match Command::decode(cdb) {
            Ok(Command::Inquiry {
                page: None,
                allocation,
            }) => (inquiry::standard(false), allocation),
            Ok(Command::ReportLuns { select, allocation }) => {
                let numbers = self.numbers.iter().copied();
                (
                    inquiry::luns(select, numbers).unwrap_or_default(),
                    allocation,
                )
            }
            Ok(Command::RequestSense {
                descriptor,
                allocation,
            }) => (Sense::NO_SUCH_UNIT.encode(descriptor), allocation),
            _ => {
                failed(&mut self.tally);
                let refusal = Sense::NO_SUCH_UNIT.into();
                return answered.refuse(&mut self.replies, refusal, None);
            }
        };
        let len = reply
            .len()
            .min(usize::try_from(allocation).unwrap_or(usize::MAX));
        let reply = reply.get(..len).unwrap_or_default();
        self.reply(of_reply(answered, READS, reply), reply);
    }

    fn read(
        &mut self,
        unit: Arc<Unit>,
        span: Span,
        answered: Answered,
        (attribute, next_follows): (Attribute, bool),
    ) -> Result<(), Disconnected> {
        let bytes = answered.command_bytes.min(answered.expected_bytes);
        let is_large = bytes > SMALL_REPLY_BYTES;
        let connection = &self.session.context.connection;
        self.habits.look_for_client(connection, is_large)?;
        let order = CommandOrder::Now(attribute);
        let may_begin = self.may_begin(&unit, attribute);
        let lease = match is_large && may_begin {
            true => self.session.context.reads.try_take(bytes),
            false => None,
        };
        if !may_begin || (is_large && lease.is_none()) {
            // A worker leases the memory when it begins: others need it meanwhile.
            let task = self.task(unit, TaskWork::Read(span), answered, (order, vec![]));
            return self.hand_over(task);
        }
        let abilities = unit.volume().capabilities();
        let is_cached = abilities.is_cached(span.context, span.offset_bytes, span.len_bytes);
        let is_alone = !next_follows && self.workers.in_flight(Lane::Reads) == 0;
        if !is_alone && !is_cached {
            self.habits.keeps_several();
        }
        if !is_cached && self.habits.is_for_workers() {
            let leases = lease.into_iter().collect();
            let task = self.task(unit, TaskWork::Read(span), answered, (order, leases));
            return self.hand_over(task);
        }
        if !is_cached {
            // Finished answers must not wait for the device.
            self.flush()?;
        }
        let segments = &self.workers.service().segments;
        let tasks = self.workers.service().nexus.tasks.clone();
        let at_once = tasks.at_once();
        match unit.recheck(&self.workers.service().nexus, Use::Read) {
            Ok(()) => {
                answered.read(&mut self.replies, segments, &unit, span);
                self.tally.done(Kind::Read, bytes);
            }
            Err(refusal) => self.refuse(answered, refusal, &unit),
        }
        drop(at_once);
        if let Some(lease) = &lease {
            lease.transfer(self.replies.len() as u64);
        }
        if !is_cached || lease.is_some() {
            // Send before the memory of a large reply is released.
            self.flush()?;
        }
        Ok(())
    }

    /// Finds out whether the initiator sent more while a read waited on this thread.
    pub(super) fn look_ahead(&mut self, input: &mut Input) {
        if !input.available().is_empty() {
            return;
        }
        let stream = &*self.session.context.connection.stream;
        if input.fill_now(stream).unwrap_or(false) {
            // The initiator did not wait for this answer before it sent the next command.
            self.habits.keeps_several();
        }
    }

    pub(super) fn workers_are_idle(&self) -> bool {
        self.workers.in_flight(Lane::Reads) == 0
    }
}

/// Adds the length of the reply to a command.
fn of_reply(answered: Answered, flags: u8, reply: &[u8]) -> Answered {
    Answered {
        expected_bytes: match flags & READS != 0 {
            true => answered.expected_bytes,
            false => 0,
        },
        command_bytes: reply.len() as u64,
        ..answered
    }
}
