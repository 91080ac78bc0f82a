//! Holds the writes of a connection whose data has not arrived. The full feature phase keeps one
//! set.
//!
//! Invariant: the data of a write is leased before it is asked for. Writes are asked for in the
//! order in which they arrived, so that none has memory that an older one waits for: the younger
//! may have to wait for the older. Data that was not asked for has memory of another pool.

use crate::answers::Answered;
use crate::scsi::action::Job;
use crate::scsi::task_set::Ticket;
use crate::scsi::unit::Unit;
use crate::sender::Place;
use crate::wire::pdu::{NO_TAG, PduHeader};
use connections::{Alarm, Disconnected, Lease, Queued, Share};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A write whose data has not arrived.
pub(super) struct Pending {
    pub(super) unit: Arc<Unit>,
    pub(super) lun: u64,
    pub(super) job: Job,
    pub(super) answered: Answered,
    /// Length of the data that is wanted, bytes.
    pub(super) transfer: u64,
    pub(super) data: Vec<u8>,
    /// Memory for all data that has arrived or was asked for.
    pub(super) leases: Vec<Lease>,
    pub(super) is_asked: bool,
    pub(super) sequence: Sequence,
    pub(super) ticket: Ticket,
}

/// A sequence of Data-Out PDUs.
pub(super) struct Sequence {
    /// Tag of the R2T; [`NO_TAG`] for unsolicited data.
    pub(super) tag: u32,
    /// Offset of the next byte.
    pub(super) offset: u64,
    pub(super) left: u64,
    pub(super) number: u32,
}

impl Pending {
    pub(super) fn new(
        unit: Arc<Unit>,
        header: &PduHeader,
        job: Job,
        answered: Answered,
        transfer: u64,
        (data, unsolicited): (&[u8], u64),
        (ticket, lease): (Ticket, Option<Lease>),
    ) -> Self {
        let mut kept = Vec::with_capacity(data.len() + unsolicited as usize);
        kept.extend_from_slice(data);
        Self {
            unit,
            lun: header.lun(),
            job,
            answered,
            transfer,
            data: kept,
            leases: lease.into_iter().collect(),
            is_asked: false,
            sequence: Sequence {
                tag: NO_TAG,
                offset: data.len() as u64,
                left: unsolicited,
                number: 0,
            },
            ticket,
        }
    }

    /// Returns true if the initiator still sends data that it was not asked for.
    pub(super) fn is_unsolicited(&self) -> bool {
        self.sequence.tag == NO_TAG && self.sequence.left > 0
    }
}

/// All writes whose data has not arrived.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) writes: HashMap<u32, (Pending, Place)>,
    /// Tags of those that no data was asked for yet, in the order of arrival.
    pub(super) waiting: VecDeque<u32>,
    /// Number of those that data was asked for.
    pub(super) asked: usize,
    next_tag: u32,
    /// The tag of the write that waits for memory, and its place in the queue.
    queued: Option<(u32, Queued)>,
    alarm: Option<Arc<Alarm>>,
}

impl Incoming {
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn insert(&mut self, pending: Pending, place: Place) {
        let tag = pending.answered.tag;
        self.waiting.push_back(tag);
        self.writes.insert(tag, (pending, place));
    }

    pub(super) fn remove(&mut self, tag: u32) -> Option<(Pending, Place)> {
        let removed = self.writes.remove(&tag)?;
        self.waiting.retain(|waiting| *waiting != tag);
        if removed.0.is_asked {
            self.asked -= 1;
        }
        self.queued.take_if(|(queued, _)| *queued == tag);
        Some(removed)
    }

    /// Drops the writes of a unit, or of all, or one by its tag. Returns their number.
    pub(super) fn abort(&mut self, lun: Option<u64>, tag: Option<u32>) -> usize {
        let is_meant = |(at, (pending, _)): &(&u32, &(Pending, Place))| {
            lun.is_none_or(|lun| pending.lun == lun) && tag.is_none_or(|tag| tag == **at)
        };
        let meant = self.writes.iter().filter(is_meant).map(|(tag, _)| *tag);
        let meant: Vec<u32> = meant.collect();
        meant.iter().filter_map(|tag| self.remove(*tag)).count()
    }

    /// Returns what rings when a write may have memory that has waited for it.
    pub(super) fn waits(&self) -> Option<&Alarm> {
        self.queued.as_ref()?;
        self.alarm.as_deref()
    }

    /// Leases memory for a write, or queues for it and returns `None`.
    pub(super) fn lease(
        &mut self,
        tag: u32,
        share: &Arc<Share>,
        bytes: u64,
    ) -> Result<Option<Lease>, Disconnected> {
        let queued = match self.queued.take() {
            Some((of, queued)) if of == tag => queued,
            _ => match share.try_take(bytes) {
                None if self.asked > 0 => return Ok(None),
                None => share.queue(bytes, Some(self.alarm()?)),
                lease => return Ok(lease),
            },
        };
        match queued.poll() {
            Ok(lease) => Ok(Some(lease)),
            Err(queued) => {
                self.queued = Some((tag, queued));
                Ok(None)
            }
        }
    }

    fn alarm(&mut self) -> Result<Arc<Alarm>, Disconnected> {
        let made = match self.alarm.take() {
            Some(made) => made,
            None => Arc::new(Alarm::new().map_err(|_| Disconnected)?),
        };
        self.alarm = Some(made.clone());
        Ok(made)
    }

    pub(super) fn fresh_tag(&mut self) -> u32 {
        self.next_tag = self.next_tag.wrapping_add(1);
        if self.next_tag == NO_TAG {
            self.next_tag = 1;
        }
        self.next_tag
    }
}
