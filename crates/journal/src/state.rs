//! State behind the journal's lock: the ring, and records that are not written yet.
//!
//! [`super::Journal`] calls this.
//! Invariant: the lock is never held during I/O. Positions only grow. Batches wait in order, and
//! the written ones leave from the front.

use super::batch::Batch;
use super::ring::{Ring, SLOTS_MAX};
use super::slot_use::SlotUse;
use super::writer::Costs;
use super::{Record, Site};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::journal::{BATCH_HEADER_BYTES, BLOCK_BYTES, RING_BYTES_MAX, RecordHeader, SlotHeader};
use media::MediaErrorKind;
use std::collections::VecDeque;
use std::sync::Arc;
use units::JournalPosition;

/// The state. See the module's head.
pub(super) struct JournalState {
    pub(super) ring: Ring,
    /// Batch that receives appended records.
    open: Option<Batch>,
    /// Closed batches in order, including those that are being written.
    pub(super) waiting: VecDeque<Arc<Batch>>,
    /// Their size, bytes.
    pub(super) waiting_bytes: usize,
    /// Position after the last record, or after the padding that follows it.
    pub(super) head: u64,
    /// Everything below survives power loss.
    pub(super) durable: u64,
    /// Nothing below is needed.
    pub(super) trimmed: u64,
    /// Bytes of kept writes.
    pub(super) kept_bytes: u64,
    /// A leader writes; other threads wait for it.
    pub(super) leading: bool,
    /// A write or a sync failed: what reached the disk is unknown.
    pub(super) failed: bool,
    /// The owner has noted that the journal holds nothing.
    pub(super) ended: bool,
    /// Number of records that were ever appended.
    pub(super) records: u64,
    /// Costs of the writer after its last run.
    pub(super) costs: Costs,
    /// Buffer pool for batches: memory that is mapped and warm.
    spare: Vec<Vec<u8>>,
}

impl JournalState {
    /// Creates the state over the uses that were found.
    pub(super) fn new(ring: Ring, base: u64, trimmed: u64) -> Self {
        Self {
            ring,
            open: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            head: base,
            durable: base,
            trimmed,
            kept_bytes: 0,
            leading: false,
            failed: false,
            ended: false,
            records: 0,
            costs: Costs::default(),
            spare: Vec::new(),
        }
    }

    /// Fails for ever after a failed write or sync.
    pub(super) fn sound(&self) -> Result<()> {
        if !self.failed {
            return Ok(());
        }
        Err(StoreError::new(
            StoreErrorKind::Media(MediaErrorKind::Poisoned),
            "writing the journal failed, and how much reached the disk is unknown: restart the server",
        ))
    }

    /// Appends a record with a valid header.
    pub(super) fn append(
        &mut self,
        site: &Site,
        header: RecordHeader,
        record: &Record<'_>,
        kept: bool,
    ) -> Result<JournalPosition> {
        if self.ended {
            let why = "the journal has ended: start the server again";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let bytes = header.record_bytes(site.seal);
        if self
            .open
            .as_ref()
            .is_none_or(|open| !fits(open, bytes, site.batch_bytes))
        {
            self.close();
            self.open = Some(self.next_batch(site, bytes, kept)?);
        }
        let Some(open) = &mut self.open else {
            return Err(StoreError::new(StoreErrorKind::Invalid, "no batch is open"));
        };
        open.slot_use.note(&header);
        let at = open.push(header, record);
        self.head = open.end();
        self.records += 1;
        Ok(at)
    }

    /// Creates a batch for a record of `bytes`, in the next slot if this one is full.
    fn next_batch(&mut self, site: &Site, bytes: usize, kept: bool) -> Result<Batch> {
        let fits = |slot_use: &Arc<SlotUse>| {
            let room = slot_use.limit().saturating_sub(self.head);
            room >= (BATCH_HEADER_BYTES + bytes) as u64
        };
        let slot_use = match self.ring.current().filter(|slot_use| fits(slot_use)) {
            Some(slot_use) => Arc::clone(slot_use),
            None => self.next_slot(site, kept)?,
        };
        let at = self.head;
        let spare = self.spare.pop().unwrap_or_default();
        Ok(Batch::new(slot_use, at, spare, site.batch_bytes))
    }

    fn next_slot(&mut self, site: &Site, kept: bool) -> Result<Arc<SlotUse>> {
        let extra = match kept {
            true => extra_slots_max(site),
            false => self.extra_slots(site),
        };
        let slot = self.ring.next_free();
        let Some(slot) = slot.or_else(|| self.ring.next_extra(extra)) else {
            let message = "its records wait for a checkpoint";
            return Err(StoreError::new(StoreErrorKind::JournalFull, message));
        };
        let (first, previous, continues_from) = self.ring.next();
        let mut salt = [0; 32];
        site.random.fill(&mut salt);
        let header = SlotHeader {
            pool: site.pool,
            slot,
            seal: site.seal,
            first: JournalPosition(first),
            slot_bytes: site.slot_bytes,
            previous,
            continues_from,
            salt,
            tag: [0; 16],
        };
        let slot_use = Arc::new(SlotUse::new(header, &site.master));
        self.ring.begin(Arc::clone(&slot_use));
        self.head = first;
        Ok(slot_use)
    }

    /// Returns how many slots beyond the ring's own kept writes may take.
    fn extra_slots(&self, site: &Site) -> u32 {
        if self.kept_bytes == 0 {
            return 0;
        }
        let room = site.slot_bytes.saturating_sub(BLOCK_BYTES as u64).max(1);
        let slots = self.kept_bytes.div_ceil(room) + 1;
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        slots.min(extra_slots_max(site))
    }

    /// Passes the open batch to the writer.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.head = open.padded_end();
            self.ring.extend(self.head);
            self.waiting_bytes += open.bytes.len();
            self.waiting.push_back(Arc::new(open));
        }
    }

    /// Removes the first `count` waiting batches, which were written. Keeps their buffers up to the
    /// limit of memory.
    pub(super) fn wrote(&mut self, site: &Site, count: usize) {
        let buffers_max = site.buffer_bytes / site.batch_bytes;
        for _ in 0..count {
            let Some(batch) = self.waiting.pop_front() else {
                break;
            };
            self.waiting_bytes -= batch.bytes.len();
            if self.spare.len() + self.waiting.len() < buffers_max
                && let Ok(batch) = Arc::try_unwrap(batch)
            {
                self.spare.push(batch.bytes);
            }
        }
        self.free();
    }

    /// Frees slots below a position that is no longer needed.
    pub(super) fn trim(&mut self, before: JournalPosition) {
        self.trimmed = self.trimmed.max(before.0.min(self.head));
        self.free();
    }

    /// A slot becomes free when it was trimmed and no batch waits to be written to it.
    fn free(&mut self) {
        let open = self.open.as_ref().map(|open| open.at);
        let dirty = self.waiting.front().map(|batch| batch.at).or(open);
        self.ring.free(self.trimmed.min(dirty.unwrap_or(self.head)));
    }

    /// Finds the batch in memory that holds a position. The open one is passed to `from_open`.
    pub(super) fn buffered<T>(
        &self,
        at: JournalPosition,
        from_open: impl FnOnce(&Batch) -> T,
    ) -> Buffered<T> {
        if let Some(open) = self.open.as_ref().filter(|open| open.covers(at)) {
            return Buffered::Open(from_open(open));
        }
        let above = self.waiting.partition_point(|batch| batch.at <= at.0);
        let batch = above.checked_sub(1).and_then(|n| self.waiting.get(n));
        match batch.filter(|batch| batch.covers(at)) {
            Some(batch) => Buffered::Waiting(Arc::clone(batch)),
            None => Buffered::No,
        }
    }

    /// Returns the memory of all buffers, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let batches = self.open.iter().map(|open| open.bytes.capacity());
        let waiting = self.waiting.iter().map(|batch| batch.bytes.capacity());
        let spare = self.spare.iter().map(Vec::capacity);
        batches.chain(waiting).chain(spare).sum()
    }

    /// Returns the used bytes of the ring, including the open batch.
    pub(super) fn used_bytes(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.bytes.len());
        self.ring.used_bytes() + open.next_multiple_of(BLOCK_BYTES) as u64
    }
}

/// Where a record is.
pub(super) enum Buffered<T> {
    /// In the open batch; holds the result of `from_open`.
    Open(T),
    /// In a batch that waits or is being written.
    Waiting(Arc<Batch>),
    /// On the device, or nowhere.
    No,
}

/// Returns the maximum number of extra slots: three times the ring's own, within the format's
/// limits.
fn extra_slots_max(site: &Site) -> u32 {
    let all = (RING_BYTES_MAX / site.slot_bytes.max(1)).min(SLOTS_MAX);
    let all = u32::try_from(all).unwrap_or(u32::MAX);
    all.saturating_sub(site.slots)
        .min(site.slots.saturating_mul(3))
}

fn fits(open: &Batch, bytes: usize, batch_bytes: usize) -> bool {
    let end = open.end() + bytes as u64;
    open.bytes.len() + bytes <= batch_bytes && end <= open.slot_use.limit()
}
