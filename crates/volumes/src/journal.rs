//! The journal: acknowledged writes that are not in containers yet (decision 13).
//!
//! Invariant: what was appended before a flush that returned survives power loss at any instant;
//! after one, replay gives a prefix of what was appended, in order, and what it does not give is
//! dead for ever. A position is never given twice. After a failed write or sync the journal is
//! failed until it is opened again.
//!
//! A ring of slots, files of fixed size on the local disk ([`format::journal`] has the bytes).
//! Appending copies into memory under one short lock. There is no thread: of those who flush, one
//! leads, writes what is there and syncs once for all who wait (group commit; DeWitt et al.,
//! "Implementation techniques for main memory database systems", SIGMOD'84, section 5). Called by
//! volumes and recovery.

mod batch;
mod damage;
mod open;
mod reach;
mod read;
mod record;
mod replay;
mod ring;
mod slot_bytes;
mod slot_reader;
mod slot_use;
mod state;
mod touched;
mod writer;

pub use damage::JournalDamage;
pub use reach::LostWrites;
pub use record::Record;

use chunk_store::superblock::MasterKey;
use format::config::Seal;
use format::journal::SLOT_BYTES_MIN;
use media::{Blobs, Disk, Media, Random};
use parking_lot::{Condvar, Mutex, MutexGuard};
use state::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use store::Result;
use units::{JournalPosition, PoolId};
use writer::Writer;

/// Batches are closed when they reach this, bytes: their header and padding are then 1 % at most.
const BATCH_BYTES_TARGET: usize = 512 << 10;

/// How large the journal is.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Bytes of all slots; whole slots are used, at least two.
    pub bytes_max: u64,
    /// Bytes of one slot: a multiple of 4096, at least 128 KiB.
    pub slot_bytes: u64,
    /// Bytes that may wait in memory to be written.
    pub buffer_bytes: usize,
}

/// What the journal holds and what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalUsage {
    /// Bytes of slots that cannot be used again before a trim.
    pub used_bytes: u64,
    /// Bytes of all slots.
    pub bytes_max: u64,
    /// Bytes that wait in memory.
    pub waiting_bytes: u64,
    /// Memory of its buffers, those included that wait to be used again.
    pub memory_bytes: u64,
    /// Syncs of slot files.
    pub syncs: u64,
    /// Bytes written: records, headers, padding.
    pub bytes_written: u64,
    /// Zeroes written to make slots, once in their lives.
    pub bytes_zeroed: u64,
    /// Records appended.
    pub records: u64,
    /// Flushes asked for.
    pub flushes: u64,
}

/// What [`Journal::inspect`] found.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What is damaged.
    pub damage: Vec<JournalDamage>,
    /// Lost writes that nobody has acknowledged, the first ones.
    pub losses: Vec<LostWrites>,
    /// Further ones.
    pub more_losses: u32,
    /// Below this everything is recorded to have been durable.
    pub reached: JournalPosition,
}

/// What never changes while a journal is open.
struct Site {
    disk: Arc<dyn Disk>,
    /// Who has the reserve: what is appended was acknowledged, or gives room back.
    blobs: Arc<dyn Blobs>,
    random: Arc<dyn Random>,
    pool: PoolId,
    master: MasterKey,
    seal: Seal,
    slots: u32,
    slot_bytes: u64,
    batch_bytes: usize,
    buffer_bytes: usize,
}

/// See the module's head.
pub struct Journal {
    site: Site,
    state: Mutex<State>,
    /// Somebody wrote, or failed to.
    changed: Condvar,
    /// Whoever leads has it.
    writer: Mutex<Writer>,
    /// As of the last change behind the lock, for who asks often: [`Journal::write_out`] has something to
    /// do, ...
    write_out_due: AtomicBool,
    /// ... and how full it is.
    filled_percent: AtomicU64,
    flushes: AtomicU64,
}

impl Journal {
    fn new(site: Site, state: State, writer: Writer) -> Self {
        let journal = Self {
            site,
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

    /// Before the lock is given back: what changed behind it.
    fn note(&self, state: &State) {
        let crowded = state.waiting_bytes > self.site.buffer_bytes;
        let due = !state.waiting.is_empty() && (!state.leading || crowded);
        self.write_out_due.store(due, Relaxed);
        let filled = state.used_bytes().saturating_sub(state.kept_bytes);
        let percent = filled * 100 / state.ring.bytes_max().max(1);
        self.filled_percent.store(percent, Relaxed);
    }

    /// Appends in memory and gives the record's position; never does I/O. `JournalFull` when no
    /// slot is free: wait for a trim. `Invalid` for a record that breaks its limits.
    pub fn append(&self, record: &Record<'_>) -> Result<JournalPosition> {
        self.append_to(record, false)
    }

    /// Appends again what a checkpoint could not take, so that the slots that held it are free.
    /// When the ring is full, this takes slots of its own (see [`Journal::set_kept`]).
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

    /// About so many bytes of the journal belong to volumes that cannot be checkpointed. They do
    /// not count as filled, and the journal gets slots for them: nobody else has less room for it.
    pub fn set_kept(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.kept_bytes = bytes;
        self.note(&state);
    }

    /// Writes buffers that are full, without syncing. Whoever appends calls it afterwards, outside
    /// its locks: it waits while more than the options' `buffer_bytes` wait.
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

    /// Returns when everything that was appended before the call survives power loss.
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

    /// Records exactly how far the journal reaches: what is flushed by now cannot vanish unnoticed.
    pub fn note_reach(&self) -> Result<()> {
        self.flush()?;
        self.with_writer(|site, writer| writer.record_reach(site, true).map_err(|f| f.error))
    }

    /// Position below which everything is recorded to be durable.
    pub fn reached(&self) -> JournalPosition {
        self.writer.lock().reach.reached()
    }

    /// Acknowledged writes that are lost, and how many more there were, until somebody acknowledges
    /// that.
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

    /// Somebody knows of the losses: they are not told any more.
    pub fn acknowledge_losses(&self) -> Result<()> {
        self.with_writer(|site, writer| {
            writer.reach.acknowledge();
            match writer.reach.is_changed() {
                true => writer.reach.write(site),
                false => Ok(()),
            }
        })
    }

    /// Nobody leads meanwhile.
    fn with_writer(&self, work: impl FnOnce(&Site, &mut Writer) -> Result<()>) -> Result<()> {
        work(&self.site, &mut self.writer.lock())
    }

    /// Acknowledged writes that are recorded to be lost, and how many more there were. Reads the
    /// record only.
    pub fn recorded_losses(
        media: &Media,
        pool: PoolId,
        master: &MasterKey,
        seal: Seal,
    ) -> Result<(Vec<LostWrites>, u32)> {
        let record = reach::read(&inspecting(media, pool, master, seal)?)?.record;
        let losses = record.as_ref().map_or(&[][..], |record| &record.losses);
        let more = record.as_ref().map_or(0, |record| record.more_losses);
        Ok((losses.iter().map(LostWrites::of).collect(), more))
    }

    /// What is wrong with the journal of a pool that somebody else may be writing to, and which
    /// losses are not acknowledged. Writes nothing.
    pub fn inspect(
        media: &Media,
        pool: PoolId,
        master: &MasterKey,
        seal: Seal,
        from: JournalPosition,
    ) -> Result<Inspection> {
        let site = inspecting(media, pool, master, seal)?;
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

    /// Nothing below `before` is needed any more, also after a crash: the caller has made sure that
    /// [`Journal::open`] will be told at least `before`. Slots that end there are free again.
    pub fn trim(&self, before: JournalPosition) {
        let mut state = self.state.lock();
        state.trim(before);
        self.note(&state);
    }

    /// A position above all records that were appended, and not above the next one.
    pub fn head(&self) -> JournalPosition {
        JournalPosition(self.state.lock().head)
    }

    /// Positions given from now on are at `above` at least. Whoever stores positions elsewhere says
    /// here, before the first append, which is the highest: a process that wrote nothing to the
    /// journal before it died left no trace of those that it gave, and a journal whose files are
    /// gone knows of none.
    pub fn raise(&self, above: JournalPosition) {
        let mut state = self.state.lock();
        if state.ring.current().is_none() {
            let base = state.ring.raise(above.0);
            (state.head, state.durable) = (base, base);
        }
    }

    /// Bytes that cannot be used again before a trim; what is kept does not count.
    pub fn filled_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.used_bytes().saturating_sub(state.kept_bytes)
    }

    /// Bytes of the ring's own slots.
    pub fn bytes_max(&self) -> u64 {
        self.site.slot_bytes * u64::from(self.site.slots)
    }

    /// How much of it cannot be used again before a trim, in percent of the ring's own slots; what
    /// is kept does not count.
    pub fn filled_percent(&self) -> u64 {
        self.filled_percent.load(Relaxed)
    }

    /// True when [`Journal::write_out`] would write or wait. While somebody writes there is nothing to
    /// do for others, unless they must wait for him.
    pub fn is_write_out_due(&self) -> bool {
        self.write_out_due.load(Relaxed)
    }

    /// What it holds and what it did.
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
            memory_bytes: state.memory_bytes() as u64,
            syncs,
            bytes_written,
            bytes_zeroed,
            records: state.records,
            flushes: self.flushes.load(Relaxed),
        }
    }

    /// Writes all that waits, with `sync` also what is open, and makes it durable. Nobody else
    /// leads.
    fn lead(&self, mut state: MutexGuard<'_, State>, sync: bool) -> Result<()> {
        state.leading = true;
        if sync {
            state.close();
        }
        let batches: Vec<_> = state.waiting.iter().cloned().collect();
        let ahead = state.ring.next_free();
        self.note(&state);
        drop(state);
        let mut seat = Seat {
            journal: self,
            outcome: None,
        };
        seat.outcome = Some(self.writer.lock().run(&self.site, &batches, sync, ahead));
        drop(batches);
        seat.leave()
    }
}

/// The leader's seat: whoever leaves it without an outcome (a panic) leaves a failed journal, and
/// nobody waits for ever.
struct Seat<'a> {
    journal: &'a Journal,
    outcome: Option<writer::Outcome>,
}

impl Seat<'_> {
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

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.settle();
        }
    }
}

/// For who only reads.
fn inspecting(media: &Media, pool: PoolId, master: &MasterKey, seal: Seal) -> Result<Site> {
    let options = JournalOptions {
        bytes_max: 2 * SLOT_BYTES_MIN,
        slot_bytes: SLOT_BYTES_MIN,
        buffer_bytes: 0,
    };
    open::site(media, pool, master, seal, &options)
}

#[cfg(test)]
mod tests;
