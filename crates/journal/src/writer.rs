//! Writer of the journal: seals batches, writes them, begins slots, syncs.
//!
//! The leader calls this, one thread at a time.
//! Invariant: a slot's header is written after everything in the previous slot is durable, and only
//! into a file of full size. A byte that a sync covered is not written again before the slot's next
//! use.

use super::Site;
use super::batch::Batch;
use super::reach::{Keeper, NAMES};
use super::slot_file::SlotFile;
use super::slot_use::{DIR, SlotUse, nonce, slot_name};
use chunk_store::StoreError;
use format::journal::{
    BATCH_BYTES_MAX, BLOCK_BYTES, BatchHeader, RECORD_HEADER_BYTES, RecordHeader,
};
use media::{Barrier, Disk, MediaError, MediaErrorKind, Need};
use std::sync::Arc;
use units::JournalPosition;

/// Zeroes that are written at once to create a slot, bytes.
const ZEROES_BYTES: usize = 256 << 10;

/// Result of a run.
pub(super) struct Outcome {
    /// Number of batches written.
    pub(super) written: usize,
    /// Everything below is durable.
    pub(super) durable: u64,
    /// Costs since the journal was opened.
    pub(super) costs: Costs,
    /// Error that ended the run.
    pub(super) failed: Option<Failed>,
}

/// Costs of the writer.
#[derive(Clone, Copy, Default)]
pub(super) struct Costs {
    /// Syncs of slot files.
    pub(super) syncs: u64,
    /// Bytes of headers, batches and padding.
    pub(super) bytes_written: u64,
    /// Zeroes that created slots, bytes.
    pub(super) bytes_zeroed: u64,
}

/// The writer. See the module's head.
pub(super) struct Writer {
    slots: Vec<Slot>,
    /// Number of slots whose names are durable.
    named: u32,
    /// Slot use whose header was written last.
    current: Option<Arc<SlotUse>>,
    /// Position after the last written batch.
    written: u64,
    /// Everything below is durable.
    durable: u64,
    scratch: Vec<u8>,
    costs: Costs,
    /// Reach record.
    pub(super) reach: Keeper,
}

#[derive(Default)]
struct Slot {
    file: Option<Arc<SlotFile>>,
    /// Size of the file as far as it is written, bytes.
    bytes: u64,
}

/// Error of a run.
pub(super) struct Failed {
    pub(super) error: StoreError,
    /// The state of the disk is unknown from now on. If false, the error may pass.
    pub(super) for_ever: bool,
}

impl<E: Into<StoreError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            for_ever: true,
        }
    }
}

type Attempt<T = ()> = std::result::Result<T, Failed>;

impl Writer {
    /// Creates a writer; everything below `base` is durable.
    pub(super) fn new(slots: u32, base: u64, reach: Keeper) -> Self {
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            named: 0,
            current: None,
            written: base,
            durable: base,
            scratch: Vec::new(),
            costs: Costs::default(),
            reach,
        }
    }

    /// Writes `batches` in order, then syncs if `sync`. `ahead` is the next slot: a part of it is
    /// created each time, so that no write waits for the whole.
    pub(super) fn run(
        &mut self,
        site: &Site,
        batches: &[Arc<Batch>],
        sync: bool,
        ahead: Option<u32>,
    ) -> Outcome {
        let mut written = 0;
        let start = self.written;
        let result = batches
            .iter()
            .try_for_each(|batch| {
                self.write(site, batch)?;
                written += 1;
                Ok(())
            })
            .and_then(|()| match sync {
                true => {
                    self.sync(Barrier::JournalBeforeAck)?;
                    self.record_reach(site, false)
                }
                false => Ok(()),
            });
        if let (Ok(()), Some(slot)) = (&result, ahead.filter(|_| written > 0)) {
            // Twice as fast as the current slot fills. An error here is ignored: the slot is
            // created again when it is needed.
            let share = 2 * self.written.saturating_sub(start) + BLOCK_BYTES as u64;
            let _ = self.grow(site, slot, share, false);
        }
        Outcome {
            written,
            durable: self.durable,
            costs: self.costs,
            failed: result.err(),
        }
    }

    fn write(&mut self, site: &Site, batch: &Batch) -> Attempt {
        let slot_use = &batch.slot_use;
        if !self
            .current
            .as_ref()
            .is_some_and(|c| Arc::ptr_eq(c, slot_use))
        {
            self.begin(site, slot_use)?;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        seal(batch, JournalPosition(self.durable), &mut scratch);
        let offset = slot_use.offset(batch.at);
        let file = slot_use.file()?;
        let wrote = file.write_at(offset, &scratch);
        self.costs.bytes_written += scratch.len() as u64 * file.copies().len() as u64;
        self.scratch = scratch;
        wrote?;
        self.written = batch.padded_end();
        Ok(())
    }

    /// Continues in another slot.
    fn begin(&mut self, site: &Site, slot_use: &Arc<SlotUse>) -> Attempt {
        self.sync(Barrier::JournalBeforeNextSlot)?;
        let slot = slot_use.header.slot;
        self.grow(site, slot, u64::MAX, true)?;
        let slots = self.slots.get(slot as usize);
        let Some(file) = slots.and_then(|slot| slot.file.as_ref()) else {
            let missing = StoreError::corruption("journal", slot_name(slot), "it has no file");
            return Err(missing.into());
        };
        let page = slot_use.header.encode_page();
        file.write_at(0, &page)?;
        self.costs.bytes_written += page.len() as u64;
        let _ = slot_use.file.set(Arc::clone(file));
        self.current = Some(Arc::clone(slot_use));
        self.written = slot_use.first();
        Ok(())
    }

    /// Writes the reach record if it is due or `now`. Everything written must be durable.
    pub(super) fn record_reach(&mut self, site: &Site, now: bool) -> Attempt {
        let Some(current) = self.current.clone() else {
            return Ok(());
        };
        if self.reach.synced(site, &current, self.durable, now)? {
            self.costs.syncs += NAMES.len() as u64;
        }
        Ok(())
    }

    /// Makes everything written durable.
    fn sync(&mut self, point: Barrier) -> Attempt {
        if self.written > self.durable
            && let Some(current) = &self.current
        {
            let file = current.file()?;
            file.sync(point)?;
            self.costs.syncs += file.copies().len() as u64;
            self.durable = self.written;
        }
        Ok(())
    }

    /// Writes at most about `share` more zeroes to create a slot. A full disk is an error that may
    /// pass, because the slot is not used yet. `is_needed`: may use the reserve.
    fn grow(&mut self, site: &Site, slot: u32, share: u64, is_needed: bool) -> Attempt {
        self.name(site, slot)?;
        let Some(state) = self.slots.get_mut(slot as usize) else {
            return Ok(());
        };
        let file = match &state.file {
            Some(file) => file,
            None => {
                let file = site.open_slot(slot)?;
                state.bytes = file.len()?;
                if state.bytes > site.slot_bytes {
                    file.set_len(site.slot_bytes)?;
                }
                state.file.insert(file)
            }
        };
        let goal = site.slot_bytes.min(state.bytes.saturating_add(share));
        while state.bytes < goal {
            let piece = (site.slot_bytes - state.bytes).min(ZEROES_BYTES as u64);
            let zeroes = vec![0; usize::try_from(piece).unwrap_or(ZEROES_BYTES)];
            let write = || file.write_at(state.bytes, &zeroes);
            let written = match site.reserve().filter(|_| is_needed) {
                Some(reserve) => reserve.with_room(piece, Need::Acknowledged, write),
                None => write(),
            };
            written.map_err(|e| Failed {
                for_ever: e.kind != MediaErrorKind::NoSpace,
                error: e.into(),
            })?;
            state.bytes += piece;
            self.costs.bytes_zeroed += piece;
        }
        Ok(())
    }

    /// Creates empty files for all slots up to this one, and makes their names durable, including
    /// names that a crashed process left unsynced.
    fn name(&mut self, site: &Site, slot: u32) -> Attempt {
        let wanted = site.slots.max(slot.saturating_add(1));
        if self.named >= wanted {
            return Ok(());
        }
        name_slots(site, wanted)?;
        self.named = wanted;
        if self.slots.len() < wanted as usize {
            self.slots.resize_with(wanted as usize, Slot::default);
        }
        Ok(())
    }
}

pub(super) fn name_slots(site: &Site, wanted: u32) -> std::result::Result<(), MediaError> {
    let mut disks = site.slot_disks.iter();
    disks.try_for_each(|disk| name_slots_on(&**disk, wanted))
}

fn name_slots_on(disk: &dyn Disk, wanted: u32) -> std::result::Result<(), MediaError> {
    disk.make_dir(DIR)?;
    let known = disk.list(DIR)?;
    for slot in 0..wanted {
        let name = slot_name(slot);
        if !known
            .iter()
            .any(|entry| name.ends_with(&format!("/{}", entry.name)))
        {
            disk.create_new(&name)?.will_be_overwritten();
        }
    }
    disk.sync_dir("", Barrier::DirectoryBeforeNames)?;
    disk.sync_dir(DIR, Barrier::JournalSlotsBeforeUse)
}

/// Encodes a batch as stored: sealed, with checksums and padding.
fn seal(batch: &Batch, durable: JournalPosition, into: &mut Vec<u8>) {
    debug_assert!(batch.bytes.len() <= BATCH_BYTES_MAX);
    let slot_use = &batch.slot_use;
    let seed = slot_use.seed;
    into.clear();
    into.extend_from_slice(&batch.bytes);
    for (start, header) in &batch.records {
        let at = JournalPosition(batch.at + *start as u64);
        let Some((head, stored)) = into
            .get_mut(*start..)
            .and_then(|record| record.split_at_mut_checked(RECORD_HEADER_BYTES))
        else {
            continue;
        };
        let Some(stored) = stored.get_mut(..header.stored_bytes(slot_use.header.seal)) else {
            continue;
        };
        if let Some(key) = &slot_use.key {
            let (data, tag) = stored.split_at_mut(header.data_bytes as usize);
            tag.copy_from_slice(&key.seal_in_place(nonce(at), &header.associated_data(), data));
        }
        let header = RecordHeader {
            data_checksum: RecordHeader::checksum_data(stored),
            ..*header
        };
        head.copy_from_slice(&header.encode(seed, at));
    }
    let header = BatchHeader {
        used_bytes: batch.bytes.len() as u32,
        at: JournalPosition(batch.at),
        durable,
    };
    let encoded = header.encode(seed);
    if let Some(place) = into.get_mut(..encoded.len()) {
        place.copy_from_slice(&encoded);
    }
    into.resize(into.len().next_multiple_of(BLOCK_BYTES), 0);
}
