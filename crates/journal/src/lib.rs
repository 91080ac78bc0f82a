//! The journal: acknowledged writes to volumes that are not in containers yet (decision 13).
//!
//! A journal is a ring of slots: files of fixed size on the local disk ([`format::journal`] has the
//! layout). Appending copies a record into memory under one short lock. The journal has no thread.
//! One of the flushing threads becomes the leader: it writes what waits and syncs once for all that
//! wait (group commit; DeWitt et al., "Implementation techniques for main memory database systems",
//! SIGMOD'84, section 5).
//!
//! ```text
//! append ─> open batch ─ full, or flush ─> waiting batches ─ leader: write, sync ─> slots
//!                                                                                     │
//! open: survey, replay <── slots, reach record       trim: slots become free <────────┘
//! ```
//!
//! Volumes and recovery call this.
//! Invariant: records appended before a flush that returned survive power loss at any instant.
//! After power loss, replay yields a prefix of the appended records, in order; the others never
//! reappear. A position is never used twice. After a failed write or sync, the journal fails until
//! it is opened again.
#![forbid(unsafe_code)]

mod batch;
mod damage;
mod disks;
mod open;
mod place;
mod reach;
mod read;
mod record;
mod replay;
mod ring;
mod slot_bytes;
mod slot_file;
mod slot_reader;
mod slot_use;
mod state;
mod touched;
mod writer;

pub use damage::JournalDamage;
pub use disks::JournalDisks;
pub use place::{DeviceName, PlaceKeeper, forget_device, name_device, name_of_device, read_place};
pub use reach::LostWrites;
pub use record::Record;

use chunk_store::Result;
use chunk_store::superblock::MasterKey;
use format::config::Seal;
use format::journal::SLOT_BYTES_MIN;
use format::journal_place::JournalPlace;
use media::{Blobs, Disk, Random, Reserve};
use parking_lot::{Condvar, Mutex, MutexGuard};
use read::Opened;
use slot_file::SlotFile;
use slot_use::slot_name;
use state::JournalState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use units::{JournalPosition, PoolId};
use writer::Writer;

/// Batches are closed at this size, bytes: header and padding are then at most 1 %.
const BATCH_BYTES_TARGET: usize = 512 << 10;

/// Size of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Size of all slots, bytes. Only whole slots are used, at least two.
    pub bytes_max: u64,
    /// Size of one slot, bytes: a multiple of 4096, at least 128 KiB.
    pub slot_bytes: u64,
    /// Maximum size of records that wait in memory, bytes.
    pub buffer_bytes: usize,
}

/// Usage and counters of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalUsage {
    /// Bytes of slots that cannot be reused before a trim.
    pub used_bytes: u64,
    /// Size of all slots, bytes.
    pub bytes_max: u64,
    /// Bytes that wait in memory.
    pub waiting_bytes: u64,
    /// Memory of its buffers, including the buffer pool, bytes.
    pub memory_bytes: u64,
    /// Syncs of slot files.
    pub syncs: u64,
    /// Bytes written: records, headers, padding.
    pub bytes_written: u64,
    /// Zeroes written to create slots, once for each.
    pub bytes_zeroed: u64,
    /// Records appended.
    pub records: u64,
    /// Flushes requested.
    pub flushes: u64,
    /// Where the slots are.
    pub place: JournalPlace,
}

/// Result of [`Journal::inspect`].
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Damaged parts.
    pub damage: Vec<JournalDamage>,
    /// The first lost writes that no user has acknowledged.
    pub losses: Vec<LostWrites>,
    /// Number of further ones.
    pub more_losses: u32,
    /// Everything below is recorded as durable.
    pub reached: JournalPosition,
}

/// Properties that do not change while a journal is open.
struct Site {
    /// The pool's own: has the record of the reach.
    disk: Arc<dyn Disk>,
    /// Have the slots.
    slot_disks: Vec<Arc<dyn Disk>>,
    /// Which disks these are.
    place: JournalPlace,
    /// Has the reserve. The journal may use it: its records were acknowledged, or will free space.
    blobs: Arc<dyn Blobs>,
    random: Arc<dyn Random>,
    pool: PoolId,
    master: MasterKey,
    seal: Seal,
    slots: u32,
    slot_bytes: u64,
    batch_bytes: usize,
    buffer_bytes: usize,
    /// Memory for records that were read.
    opened_bytes: usize,
    /// Nothing is written, so that the medium may be read-only.
    inspects: bool,
}

impl Site {
    /// Opens a slot on each disk.
    fn open_slot(&self, slot: u32) -> Result<Arc<SlotFile>> {
        let name = slot_name(slot);
        let copies = self.slot_disks.iter().map(|disk| disk.open(&name, false));
        let copies = copies.collect::<std::result::Result<_, _>>()?;
        Ok(Arc::new(SlotFile::new(copies)))
    }

    /// Returns the reserve, which has space on the pool's disk only.
    fn reserve(&self) -> Option<&Reserve> {
        self.blobs
            .reserve()
            .filter(|_| self.place != JournalPlace::Fast)
    }
}

/// An open journal. See the module's head.
pub struct Journal {
    site: Site,
    /// A disk lacks something that another one has; see [`Journal::is_degraded`].
    degraded: bool,
    state: Mutex<JournalState>,
    /// Signalled after each attempt to write.
    changed: Condvar,
    /// Used by the leader.
    writer: Mutex<Writer>,
    /// Records that were read of late.
    opened: Opened,
    /// True if [`Journal::write_out`] has work. Copied at each change under the lock, for readers
    /// without it.
    write_out_due: AtomicBool,
    /// How full the journal is, copied the same way.
    filled_percent: AtomicU64,
    flushes: AtomicU64,
}

impl Journal {
    fn new(site: Site, state: JournalState, writer: Writer, degraded: bool) -> Self {
        let opened = Opened::new(site.opened_bytes);
        let journal = Self {
            opened,
            site,
            degraded,
            state: Mutex::new(state),
            changed: Condvar::new(),
            writer: Mutex::new(writer),
            write_out_due: AtomicBool::new(false),
            filled_percent: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        };
        journal.note(&journal.state.lock());
        journal
    }

    /// Updates the copies of the state. Called before the lock is released.
    fn note(&self, state: &JournalState) {
        let is_full = state.waiting_bytes > self.site.buffer_bytes;
        let due = !state.waiting.is_empty() && (!state.leading || is_full);
        self.write_out_due.store(due, Relaxed);
        let filled = state.used_bytes().saturating_sub(state.kept_bytes);
        let percent = filled * 100 / state.ring.bytes_max().max(1);
        self.filled_percent.store(percent, Relaxed);
    }

    /// Returns true if opening found that one of several disks lacks needed records, so that the
    /// loss of another one would lose them. Ends when a checkpoint has taken everything.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Refuses further records. Called when the owner has noted that the journal holds nothing.
    pub fn end(&self) {
        self.state.lock().ended = true;
    }

    /// Appends a record in memory and returns its position. Does no I/O. Fails with `JournalFull`
    /// if no slot is free until a trim, and with `Invalid` if the record breaks its limits.
    pub fn append(&self, record: &Record<'_>) -> Result<JournalPosition> {
        self.append_to(record, false)
    }

    /// Appends a write again that a checkpoint could not take, so that its old slot becomes free.
    /// If the ring is full, this takes extra slots (see [`Journal::set_kept`]).
    pub fn append_kept(&self, record: &Record<'_>) -> Result<JournalPosition> {
        self.append_to(record, true)
    }

    fn append_to(&self, record: &Record<'_>, kept: bool) -> Result<JournalPosition> {
        let header = record.header()?;
        let mut state = self.state.lock();
        state.sound()?;
        let appended = state.append(&self.site, header, record, kept);
        self.note(&state);
        appended
    }

    /// Sets how many bytes, about, belong to kept writes. They do not count as used. The journal
    /// gets extra slots for them, so that other writes keep their space.
    pub fn set_kept(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.kept_bytes = bytes;
        self.note(&state);
    }

    /// Writes full buffers without a sync. Callers of append call this afterwards, without their
    /// locks. It waits while more than the options' `buffer_bytes` wait.
    pub fn write_out(&self) -> Result<()> {
        if !self.is_write_out_due() {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            state.sound()?;
            if state.waiting.is_empty() {
                return Ok(());
            }
            if !state.leading {
                return self.lead(state, false);
            }
            if state.waiting_bytes <= self.site.buffer_bytes {
                return Ok(());
            }
            self.changed.wait(&mut state);
        }
    }

    /// Returns when everything appended before the call survives power loss.
    pub fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        let target = state.head;
        loop {
            state.sound()?;
            if state.durable >= target {
                return Ok(());
            }
            if !state.leading {
                return self.lead(state, true);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Flushes and records the exact end of the journal, so that a later loss of flushed writes is
    /// noticed.
    pub fn note_reach(&self) -> Result<()> {
        self.flush()?;
        self.with_writer(|site, writer| writer.record_reach(site, true).map_err(|f| f.error))
    }

    /// Makes the record name no use of a slot, because everything was applied and the next opening
    /// may find other slots, or none.
    pub fn forget_reach(&self) -> Result<()> {
        let head = self.head();
        self.with_writer(|site, writer| {
            let reached = writer.reach.reached().max(head);
            writer.reach.ends_at(JournalPosition(0), reached, 0);
            writer.reach.write(site)
        })
    }

    /// Returns the position below which everything is recorded as durable.
    pub fn reached(&self) -> JournalPosition {
        self.writer.lock().reach.reached()
    }

    /// Returns lost acknowledged writes that no user has acknowledged, and how many more there
    /// were.
    pub fn losses(&self) -> (Vec<LostWrites>, u32) {
        let (losses, more) = self.writer.lock().reach.losses();
        (losses.iter().map(LostWrites::of).collect(), more)
    }

    /// Records further losses.
    pub fn note_losses(&self, damage: &[JournalDamage]) -> Result<()> {
        self.with_writer(|site, writer| {
            writer.reach.lost(damage);
            match writer.reach.is_changed() {
                true => writer.reach.write(site),
                false => Ok(()),
            }
        })
    }

    /// Removes the recorded losses, because a user acknowledged them.
    pub fn acknowledge_losses(&self) -> Result<()> {
        self.with_writer(|site, writer| {
            writer.reach.acknowledge();
            match writer.reach.is_changed() {
                true => writer.reach.write(site),
                false => Ok(()),
            }
        })
    }

    /// Runs `work` while no leader uses the writer.
    fn with_writer(&self, work: impl FnOnce(&Site, &mut Writer) -> Result<()>) -> Result<()> {
        work(&self.site, &mut self.writer.lock())
    }

    /// Returns recorded losses of acknowledged writes, and how many more there were. Reads only the
    /// record.
    pub fn recorded_losses(
        disks: impl Into<JournalDisks>,
        pool: PoolId,
        master: &MasterKey,
        seal: Seal,
    ) -> Result<(Vec<LostWrites>, u32)> {
        let record = reach::read(&inspecting(disks.into(), pool, master, seal)?)?.record;
        let losses = record.as_ref().map_or(&[][..], |record| &record.losses);
        let more = record.as_ref().map_or(0, |record| record.more_losses);
        Ok((losses.iter().map(LostWrites::of).collect(), more))
    }

    /// Finds damage and unacknowledged losses in the journal of a pool that another process may be
    /// writing. Writes nothing.
    pub fn inspect(
        disks: impl Into<JournalDisks>,
        pool: PoolId,
        master: &MasterKey,
        seal: Seal,
        from: JournalPosition,
    ) -> Result<Inspection> {
        let site = inspecting(disks.into(), pool, master, seal)?;
        let survey = open::survey(&site, from, &mut |_, _| Ok(()))?;
        let reach = survey.reach.as_ref();
        let losses = reach.map_or(&[][..], |reach| &reach.losses);
        Ok(Inspection {
            damage: survey.damage,
            losses: losses.iter().map(LostWrites::of).collect(),
            more_losses: reach.map_or(0, |reach| reach.more_losses),
            reached: reach.map_or(JournalPosition(0), |reach| reach.reached),
        })
    }

    /// Frees slots that end at or below `before`. The caller guarantees that [`Journal::open`] will
    /// be called with at least `before`, even after a crash.
    pub fn trim(&self, before: JournalPosition) {
        let mut state = self.state.lock();
        state.trim(before);
        self.note(&state);
    }

    /// Returns a position above all appended records and not above the next one.
    pub fn head(&self) -> JournalPosition {
        JournalPosition(self.state.lock().head)
    }

    /// Makes later positions start at `above` or higher. An owner that stores positions elsewhere
    /// calls this before the first append. The files do not show positions of a process that died
    /// before it wrote to the journal. If the files were deleted, the journal shows none at all.
    pub fn raise(&self, above: JournalPosition) {
        let mut state = self.state.lock();
        if state.ring.current().is_none() {
            let base = state.ring.raise(above.0);
            (state.head, state.durable) = (base, base);
        }
    }

    /// Returns the bytes that cannot be reused before a trim, without kept writes.
    pub fn filled_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.used_bytes().saturating_sub(state.kept_bytes)
    }

    /// Returns the size of the ring's own slots, bytes.
    pub fn bytes_max(&self) -> u64 {
        self.site.slot_bytes * u64::from(self.site.slots)
    }

    /// Returns how much cannot be reused before a trim, without kept writes, in percent of the
    /// ring's own slots.
    pub fn filled_percent(&self) -> u64 {
        self.filled_percent.load(Relaxed)
    }

    /// Returns true if [`Journal::write_out`] would write or wait. While a leader writes, others
    /// have nothing to do unless the buffers are full.
    pub fn is_write_out_due(&self) -> bool {
        self.write_out_due.load(Relaxed)
    }

    /// Returns usage and counters.
    pub fn usage(&self) -> JournalUsage {
        let state = self.state.lock();
        let writer::Costs {
            syncs,
            bytes_written,
            bytes_zeroed,
        } = state.costs;
        JournalUsage {
            used_bytes: state.used_bytes(),
            bytes_max: state.ring.bytes_max(),
            waiting_bytes: state.waiting_bytes as u64,
            memory_bytes: state.memory_bytes() as u64 + self.opened.bytes(),
            syncs,
            bytes_written,
            bytes_zeroed,
            records: state.records,
            flushes: self.flushes.load(Relaxed),
            place: self.site.place,
        }
    }

    /// Becomes the leader: writes everything that waits. With `sync`, also writes the open batch
    /// and makes everything durable. There must be no other leader.
    fn lead(&self, mut state: MutexGuard<'_, JournalState>, sync: bool) -> Result<()> {
        state.leading = true;
        if sync {
            state.close();
        }
        let batches: Vec<_> = state.waiting.iter().cloned().collect();
        let ahead = state.ring.next_free();
        self.note(&state);
        drop(state);
        let mut writer_lock = WriterLock {
            journal: self,
            outcome: None,
        };
        writer_lock.outcome = Some(self.writer.lock().run(&self.site, &batches, sync, ahead));
        drop(batches);
        writer_lock.leave()
    }
}

/// Scope of the leader. If it ends without an outcome, by a panic, the journal fails, so that no
/// thread waits for ever.
struct WriterLock<'a> {
    journal: &'a Journal,
    outcome: Option<writer::Outcome>,
}

impl WriterLock<'_> {
    fn leave(mut self) -> Result<()> {
        self.settle()
    }

    fn settle(&mut self) -> Result<()> {
        let mut state = self.journal.state.lock();
        let result = match self.outcome.take() {
            Some(outcome) => {
                state.wrote(&self.journal.site, outcome.written);
                state.costs = outcome.costs;
                state.durable = state.durable.max(outcome.durable);
                outcome.failed.map_or(Ok(()), |failed| {
                    state.failed |= failed.for_ever;
                    Err(failed.error)
                })
            }
            None => {
                state.failed = true;
                Ok(())
            }
        };
        state.leading = false;
        self.journal.note(&state);
        drop(state);
        self.journal.changed.notify_all();
        result
    }
}

impl Drop for WriterLock<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.settle();
        }
    }
}

/// Returns a site for readers that do not write.
fn inspecting(disks: JournalDisks, pool: PoolId, master: &MasterKey, seal: Seal) -> Result<Site> {
    let options = JournalOptions {
        bytes_max: 2 * SLOT_BYTES_MIN,
        slot_bytes: SLOT_BYTES_MIN,
        buffer_bytes: 0,
    };
    Ok(Site {
        inspects: true,
        ..open::site(disks, pool, master, seal, &options)?
    })
}

#[cfg(test)]
mod tests;
