//! Holds the writes of a connection whose data has not arrived. The full feature phase keeps one
//! set.
//!
//! Invariant: a write has a lease exactly while its data is asked for.

use crate::answers::Answered;
use crate::scsi::action::Job;
use crate::scsi::unit::Unit;
use crate::sender::Place;
use crate::wire::pdu::NO_TAG;
use connections::Lease;
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
    pub(super) lease: Option<Lease>,
    pub(super) sequence: Sequence,
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
        lun: u64,
        job: Job,
        answered: Answered,
        transfer: u64,
        data: &[u8],
        unsolicited: u64,
    ) -> Self {
        Self {
            unit,
            lun,
            job,
            answered,
            transfer,
            data: data.to_vec(),
            lease: None,
            sequence: Sequence {
                tag: NO_TAG,
                offset: data.len() as u64,
                left: unsolicited,
                number: 0,
            },
        }
    }
}

/// All writes whose data has not arrived.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) writes: HashMap<u32, (Pending, Place)>,
    /// Tags of those that wait for memory, in order.
    pub(super) waiting: VecDeque<u32>,
    /// Number of those that data was asked for.
    pub(super) asked: usize,
    next_tag: u32,
}

impl Incoming {
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn contains(&self, tag: u32) -> bool {
        self.writes.contains_key(&tag)
    }

    pub(super) fn insert(&mut self, pending: Pending, place: Place) {
        let tag = pending.answered.tag;
        if pending.sequence.left == 0 {
            self.waiting.push_back(tag);
        }
        self.writes.insert(tag, (pending, place));
    }

    pub(super) fn remove(&mut self, tag: u32) -> Option<(Pending, Place)> {
        let removed = self.writes.remove(&tag)?;
        self.waiting.retain(|waiting| *waiting != tag);
        if removed.0.lease.is_some() {
            self.asked -= 1;
        }
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

    pub(super) fn fresh_tag(&mut self) -> u32 {
        self.next_tag = self.next_tag.wrapping_add(1);
        if self.next_tag == NO_TAG {
            self.next_tag = 1;
        }
        self.next_tag
    }
}
