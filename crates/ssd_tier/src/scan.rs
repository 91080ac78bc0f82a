//! Opens the tier's file and reads the directories of its blocks, so that it is warm after a
//! restart. `step` calls this.
//!
//! Invariant: a block counts only if its header names this pool and this slot and its directory
//! agrees with the header. Nothing is written before every slot was looked at.

use crate::block::{frames_bytes_of, open_directory};
use crate::class::CacheClass;
use crate::index::Place;
use crate::keys::Use;
use crate::slots::Block;
use crate::status::add;
use crate::tier::{Tier, is_end_of_file};
use crate::writer::{Phase, Writer};
use format::tier::{BLOCK_HEADER_BYTES, BlockHeader, TierEntry};
use media::{DiskFile, MediaError, MediaErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{IoClass, UnixNanos};

/// Bytes of a slot that are read first: the header, and the directory of a block of few chunks.
const HEAD_BYTES: usize = 4096;
/// Cost of a slot in the budget of a step, besides the rest of its directory, bytes.
const SLOT_COST_BYTES: u64 = HEAD_BYTES as u64;

/// Contents of a slot.
enum Seen {
    Nothing,
    /// A block, with its chunks.
    Block(BlockHeader, Arc<Use>, Vec<TierEntry>),
    /// The file ends before.
    End,
}

impl Tier {
    /// Opens the file, or makes it. A failure is noted.
    pub(crate) fn open(&self, writer: &mut Writer, now: UnixNanos) {
        match self.open_file(writer) {
            Ok(file) => {
                let mut salt = [0; 32];
                self.random.fill(&mut salt);
                writer.begin(Arc::new(Use::new(&*self.keys, salt)));
                self.scanned.store(0, Ordering::Relaxed);
                *self.file.write() = Some(file);
                self.health.opened(now);
            }
            Err(why) => self.health.shut_down(&why.to_string()),
        }
    }

    fn open_file(&self, writer: &mut Writer) -> Result<Arc<dyn DiskFile>, MediaError> {
        if self.options.is_reading {
            return self.disk.open(&self.name, false);
        }
        let lock = self.disk.lock(&format!("{}.lock", self.name))?;
        let file = match self.disk.open(&self.name, false) {
            Err(e) if e.kind == MediaErrorKind::NotFound => {
                let file = self.disk.create_new(&self.name)?;
                file.will_be_overwritten();
                file
            }
            opened => opened?,
        };
        let bytes = u64::from(self.slots.count()) * u64::from(self.options.block_bytes);
        if file.len()? > bytes {
            // The tier was made smaller. Its space is the user's again, if the system can do that.
            let _ = file.give_back(bytes);
        }
        writer.lock = Some(lock);
        Ok(file)
    }

    /// Stops using the file: everything is a miss from now on.
    pub(crate) fn close(&self, writer: &mut Writer) {
        *self.file.write() = None;
        for slot in 0..self.slots.count() {
            self.slots.vacate(slot);
        }
        self.given_up.lock().clear();
        self.hardly_needed.lock().clear();
        self.staging.clear();
        self.index.unstage_all();
        writer.lock = None;
        writer.by = None;
        writer.phase = Phase::Closed;
    }

    /// Reads the directories of the next slots. Returns the bytes that it cost.
    pub(crate) fn scan(&self, writer: &mut Writer, now: UnixNanos, budget_bytes: u64) -> u64 {
        let mut cost = 0;
        let total = self.slots.count();
        while let Phase::Scanning(slot) = writer.phase
            && cost < budget_bytes
            && self.health.is_up()
        {
            if slot >= total {
                self.end_of_scan(writer);
                break;
            }
            let Some(file) = self.file.read().clone() else {
                break;
            };
            cost += SLOT_COST_BYTES;
            match self.see(writer, &*file, slot, &mut cost) {
                Ok(Seen::Block(header, by, entries)) => {
                    self.health.worked();
                    self.enter(writer, now, header, by, &entries);
                }
                Ok(Seen::Nothing) => {
                    self.health.worked();
                    writer.occupancy.add_free(slot);
                }
                Ok(Seen::End) => {
                    (slot..total).for_each(|slot| writer.occupancy.add_free(slot));
                    writer.phase = Phase::Scanning(total);
                    continue;
                }
                Err(why) => {
                    add(&self.counters.failed_reads, 1);
                    self.health.read_failed(&why.to_string());
                    // Writing may make it readable again.
                    writer.occupancy.add_free(slot);
                }
            }
            self.scanned.store(slot + 1, Ordering::Relaxed);
            writer.phase = Phase::Scanning(slot + 1);
        }
        cost
    }

    fn end_of_scan(&self, writer: &mut Writer) {
        if self.slots.full() == 0 {
            writer.budget.fill();
        }
        self.scanned.store(self.slots.count(), Ordering::Relaxed);
        writer.phase = Phase::Ready;
    }

    fn see(
        &self,
        writer: &mut Writer,
        file: &dyn DiskFile,
        slot: u32,
        cost: &mut u64,
    ) -> Result<Seen, MediaError> {
        let block_bytes = self.options.block_bytes;
        let at = u64::from(slot) * u64::from(block_bytes);
        let mut head = vec![0; HEAD_BYTES];
        match file.read_at_past_cache(at, &mut head) {
            Ok(()) => {}
            Err(why) if is_end_of_file(&why) => return self.see_short(writer, file, slot),
            Err(why) => return Err(why),
        }
        let Ok(header) = BlockHeader::decode(&head, self.keys.pool(), slot, block_bytes) else {
            return Ok(Seen::Nothing);
        };
        let end = BLOCK_HEADER_BYTES + header.directory_bytes();
        if let Some(first) = end.checked_sub(HEAD_BYTES).filter(|rest| *rest > 0) {
            head.resize(end, 0);
            *cost += first as u64;
            let rest = head.get_mut(HEAD_BYTES..).unwrap_or_default();
            match file.read_at_past_cache(at + HEAD_BYTES as u64, rest) {
                Ok(()) => {}
                Err(why) if is_end_of_file(&why) => return Ok(Seen::Nothing),
                Err(why) => return Err(why),
            }
        }
        Ok(self.opened(writer, header, &head))
    }

    /// The last block of a file may be shorter than what is read at once.
    fn see_short(
        &self,
        writer: &mut Writer,
        file: &dyn DiskFile,
        slot: u32,
    ) -> Result<Seen, MediaError> {
        let block_bytes = self.options.block_bytes;
        let at = u64::from(slot) * u64::from(block_bytes);
        let len = file.len()?.saturating_sub(at).min(HEAD_BYTES as u64);
        if len == 0 {
            return Ok(Seen::End);
        }
        let mut head = vec![0; len as usize];
        file.read_at_past_cache(at, &mut head)?;
        let header = BlockHeader::decode(&head, self.keys.pool(), slot, block_bytes);
        Ok(match header {
            Ok(header) => self.opened(writer, header, &head),
            Err(_) => Seen::Nothing,
        })
    }

    fn opened(&self, writer: &mut Writer, header: BlockHeader, head: &[u8]) -> Seen {
        let directory = head.get(BLOCK_HEADER_BYTES..);
        let directory = directory.and_then(|bytes| bytes.get(..header.directory_bytes()));
        let by = writer.use_of(&header.salt, || Use::new(&*self.keys, header.salt));
        let (Some(stored), Some(by)) = (directory, by) else {
            return Seen::Nothing;
        };
        // Anybody could forge a block that is not sealed.
        if header.seal != by.seal() {
            return Seen::Nothing;
        }
        match open_directory(&by, &header, stored) {
            Some(Ok(entries)) => Seen::Block(header, by, entries),
            _ => Seen::Nothing,
        }
    }

    fn enter(
        &self,
        writer: &mut Writer,
        now: UnixNanos,
        header: BlockHeader,
        by: Arc<Use>,
        entries: &[TierEntry],
    ) {
        let class = CacheClass::new(header.kind, IoClass(header.class));
        let used = header.written.min(now);
        let block = Block {
            by,
            sequence: header.sequence,
            class,
            used,
        };
        self.slots.vacate(header.slot);
        let frames_bytes = frames_bytes_of(entries);
        let Some(generation) = self.slots.fill(header.slot, block, frames_bytes) else {
            return;
        };
        writer.occupancy.add_block(header.slot, class, used);
        for entry in entries {
            let (offset, len) = (entry.offset, entry.payload_bytes);
            let place = Place::of_payload(header.slot, generation, offset, len);
            if !self.index.add(&entry.fingerprint, place, &self.slots) {
                self.lose(&place);
            }
        }
    }
}
