//! Builds the PDUs that answer commands: Data-In with status, and SCSI Response. Sessions and
//! workers call this.
//!
//! Invariant: every command gets exactly one status. Nothing of a failed read remains before it.
//! The residual count always says how much the initiator's expectation differs from the command.

use crate::replies::{Numbering, Replies};
use crate::scsi::action::{Refusal, Span};
use crate::scsi::sense::Sense;
use crate::scsi::unit::Unit;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use volume::Volume;

const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const STATUS: u8 = 0x01;

/// A command that is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) tag: u32,
    /// Length of the data that the initiator expects to send or to get, bytes.
    pub(crate) expected_bytes: u64,
    /// Length of the data that the command describes, bytes.
    pub(crate) command_bytes: u64,
    /// Number of R2T PDUs sent for it.
    pub(crate) transfers: u32,
}

/// Limits of Data-In.
#[derive(Debug)]
pub(crate) struct Segments {
    /// Largest data segment, bytes. The initiator may change it.
    segment_bytes: AtomicU32,
    /// Largest sequence of PDUs, bytes.
    burst_bytes: u32,
}

impl Segments {
    pub(crate) fn new(segment_bytes: u32, burst_bytes: u32) -> Self {
        Self {
            segment_bytes: AtomicU32::new(segment_bytes),
            burst_bytes,
        }
    }

    /// Sets the largest data segment of answers that are begun from now on.
    pub(crate) fn set_segment_bytes(&self, bytes: u32) {
        self.segment_bytes.store(bytes, SeqCst);
    }
}

impl Answered {
    /// Returns the flag and the count of the residual.
    fn residual(&self) -> (u8, u32) {
        let count = self.command_bytes.abs_diff(self.expected_bytes);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match self.command_bytes.cmp(&self.expected_bytes) {
            std::cmp::Ordering::Greater => (OVERFLOW, count),
            std::cmp::Ordering::Less => (UNDERFLOW, count),
            std::cmp::Ordering::Equal => (0, 0),
        }
    }

    /// Appends a response without data.
    pub(crate) fn good(&self, replies: &mut Replies) {
        self.status(replies, GOOD, &[]);
    }

    /// Appends a response that says that another initiator aborted the command.
    pub(crate) fn aborted(mut self, replies: &mut Replies) {
        self.command_bytes = 0;
        self.status(replies, TASK_ABORTED, &[]);
    }

    /// Appends a response that asks the initiator to try again.
    pub(crate) fn busy(mut self, replies: &mut Replies) {
        self.command_bytes = 0;
        self.status(replies, BUSY, &[]);
    }

    /// Appends a response that asks the initiator to have fewer commands in flight, and to repeat
    /// this one.
    pub(crate) fn full(mut self, replies: &mut Replies) {
        self.command_bytes = 0;
        self.status(replies, TASK_SET_FULL, &[]);
    }

    /// Appends a response that says why the command failed. No data was transferred.
    pub(crate) fn refuse(mut self, replies: &mut Replies, refusal: Refusal, unit: Option<&Unit>) {
        self.command_bytes = 0;
        self.refuse_as_is(replies, refusal, unit);
    }

    /// The same, with the residual count of the command as if it had been executed.
    pub(crate) fn refuse_as_is(self, replies: &mut Replies, refusal: Refusal, unit: Option<&Unit>) {
        match refusal {
            Refusal::Conflict => self.status(replies, RESERVATION_CONFLICT, &[]),
            Refusal::Aborted => self.status(replies, TASK_ABORTED, &[]),
            Refusal::Sense(sense) => {
                let is_descriptor = unit.is_some_and(Unit::has_descriptor_sense);
                self.sense(replies, sense, is_descriptor);
            }
        }
    }

    fn sense(&self, replies: &mut Replies, sense: Sense, is_descriptor: bool) {
        let sense = sense.encode(is_descriptor);
        let mut data = (sense.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(&sense);
        self.status(replies, CHECK_CONDITION, &data);
    }

    fn status(&self, replies: &mut Replies, status: u8, data: &[u8]) {
        let (flag, residual) = self.residual();
        let header = PduHeader::new(response::COMMAND, FINAL | flag)
            .with_u8::<3>(status)
            .with_tag(self.tag)
            .with_u32::<36>(self.transfers)
            .with_u32::<44>(residual);
        replies.push(header, Numbering::Takes, data);
    }

    /// Appends data and the status.
    pub(crate) fn data(&self, replies: &mut Replies, segments: &Segments, data: &[u8]) {
        let filled = self.data_in(replies, segments, |at, into| {
            let from = data.get(at as usize..).unwrap_or_default();
            into.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = filled;
    }

    /// Reads the span into Data-In PDUs, and appends the status.
    pub(crate) fn read(&self, replies: &mut Replies, segments: &Segments, unit: &Unit, span: Span) {
        let before = replies.mark();
        let read = self.data_in(replies, segments, |at, into| {
            let offset_bytes = span.offset_bytes + at;
            unit.volume().read(span.context, offset_bytes, into)
        });
        if let Err(error) = read {
            replies.return_to(before);
            let sense = Sense::of(error.kind, false);
            self.refuse(replies, sense.into(), Some(unit));
        }
    }

    fn data_in<E>(
        &self,
        replies: &mut Replies,
        segments: &Segments,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let len = self.command_bytes.min(self.expected_bytes);
        if len == 0 {
            self.good(replies);
            return Ok(());
        }
        let (mut at, mut number) = (0, 0_u32);
        let burst_bytes = u64::from(segments.burst_bytes);
        let segment_bytes = u64::from(segments.segment_bytes.load(SeqCst));
        while at < len {
            let in_burst = burst_bytes - at % burst_bytes;
            let now = (len - at).min(in_burst).min(segment_bytes);
            let is_last = at + now == len;
            let ends_burst = is_last || now == in_burst;
            let mut flags = if ends_burst { FINAL } else { 0 };
            let mut residual = 0;
            if is_last {
                let (flag, count) = self.residual();
                flags |= flag | STATUS;
                residual = count;
            }
            let header = PduHeader::new(response::DATA_IN, flags)
                .with_tag(self.tag)
                .with_u32::<20>(NO_TAG)
                .with_u32::<36>(number)
                .with_u32::<40>(at as u32)
                .with_u32::<44>(residual);
            let numbering = match is_last {
                true => Numbering::Takes,
                false => Numbering::None,
            };
            replies.push_with(header, numbering, now as usize, |into| fill(at, into))?;
            at += now;
            number = number.wrapping_add(1);
        }
        Ok(())
    }
}
