//! Holds the state of a connection after the login, and what all of its parts need: sending,
//! rejecting, finding a unit. The files beside this one implement one part each.
//!
//! Invariant: answers are sent in the order in which they were made.

use super::Session;
use super::incoming::Incoming;
use crate::login::Names;
use crate::login::keys::Parameters;
use crate::replies::{Numbering, Replies};
use crate::scsi::task_set::{Attribute, Ticket};
use crate::scsi::unit::Unit;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use crate::wire::reject::Reason;
use crate::workers::SessionService;
use connections::{Disconnected, Habits, Tally, Workers};
use std::sync::Arc;
use std::time::Instant;

/// Bit of a SCSI Command: the initiator expects data.
pub(super) const READS: u8 = 0x40;
/// Bit of a SCSI Command: the initiator sends data.
pub(super) const WRITES: u8 = 0x20;

/// The state of a connection after the login.
pub(super) struct FullFeature<'a> {
    pub(super) session: &'a Session,
    pub(super) names: &'a Names,
    pub(super) parameters: Parameters,
    pub(super) units: Vec<(u8, Arc<Unit>)>,
    pub(super) numbers: Vec<u8>,
    pub(super) workers: Workers<SessionService>,
    pub(super) replies: Replies,
    pub(super) tally: Tally,
    /// Arrival time of the last bytes.
    pub(super) arrived: Instant,
    /// Writes whose data has not arrived.
    pub(super) incoming: Incoming,
    pub(super) habits: Habits,
    /// Data of commands since the last answers were sent, bytes.
    pub(super) taken: usize,
    /// Time since which a part of a PDU is there.
    pub(super) half_since: Option<Instant>,
    /// A sign of life was asked for.
    pub(super) is_pinged: bool,
    /// Rest of a long text.
    pub(super) text: Option<PendingText>,
}

/// How a session goes on after a PDU.
pub(super) enum Next {
    /// With the next PDU.
    Continue,
    /// The initiator logged out.
    LoggedOut,
    /// The initiator broke a rule.
    Broken(Reason),
}

/// The rest of a text that is longer than one response.
pub(super) struct PendingText {
    pub(super) tag: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

/// Place of a command in the order of its session.
pub(super) enum CommandOrder {
    /// It has just arrived.
    Now(Attribute),
    /// It has waited for its data.
    Entered(Ticket),
}

/// Data of a job: still in the input, or collected.
pub(super) enum Payload<'a> {
    Here(&'a [u8]),
    Collected(Vec<u8>),
}

impl Payload<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Collected(bytes) => bytes,
        }
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Here(bytes) => bytes.to_vec(),
            Self::Collected(bytes) => bytes,
        }
    }
}

/// Returns the number of a unit in the single level structure, peripheral or flat.
fn unit_number(lun: u64) -> Option<u8> {
    let [a, b, rest @ ..] = lun.to_be_bytes();
    let is_single = matches!(a, 0x00 | 0x40) && rest == [0; 6];
    is_single.then_some(b)
}

impl FullFeature<'_> {
    pub(super) fn unit(&self, lun: u64) -> Option<Arc<Unit>> {
        let number = unit_number(lun)?;
        let mut all = self.units.iter();
        all.find(|(n, _)| *n == number)
            .map(|(_, unit)| unit.clone())
    }

    pub(super) fn reject(&mut self, header: &PduHeader, reason: Reason) {
        let answer = PduHeader::new(response::REJECT, FINAL)
            .with_u8::<2>(reason as u8)
            .with_tag(NO_TAG);
        self.replies.push(answer, Numbering::Takes, &header.0);
    }

    pub(super) fn flush(&mut self) -> Result<(), Disconnected> {
        self.taken = 0;
        if self.replies.is_empty() {
            return Ok(());
        }
        // Count before sending: an initiator that has a reply must find it counted.
        let bytes = self.replies.len();
        self.session.context.counters.add(&mut self.tally, bytes);
        self.workers.service().sender.send(&mut self.replies)
    }
}
