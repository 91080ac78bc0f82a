//! Writable volumes of a pool: a journal, overlays, and checkpoints (decision 13).
//!
//! The server opens [`Volumes`] and drives checkpoints. Front ends get [`VolumeHandle`]s.
//!
//! ```text
//! write ──> journal ──> active overlay ─ freeze ─> frozen overlay ─ destage ─> chunks ─┐
//!   └─ large: direct lanes ─> containers                                               ├─> root
//! read <── active overlay, frozen overlay, recipe of the root (page cache beside all)  │
//!                               trim the journal <── commit <── apply to the recipe <──┘
//! ```
//!
//! Invariant: an acknowledged flush survives power loss. A block holds what was flushed last, or
//! something written later. Until [`Volumes::close`] or a crash, the journal holds every write that
//! no root holds; opening replays it.
//!
//! The modules have no import cycles; `cargo xtask tidy` checks that. `engine` assembles the parts
//! that open volumes share.
#![forbid(unsafe_code)]

mod administration;
mod around;
mod back_pressure;
mod backing;
mod budget;
mod changes;
mod checkpointer;
mod damaged;
mod decisions;
mod direct;
mod engine;
mod fetcher;
mod fragmentables;
mod handle;
mod kept;
mod levels;
mod live;
pub mod loss_messages;
mod losses;
mod memory;
mod overlay;
mod placing;
mod pool_journal;
mod reading;
mod registry;
mod replaying;
mod reservations;
mod resident;
mod room;
mod states;
mod tally;
mod tracing;
mod tracker;
mod unapplied;
mod view;
mod writing;

pub use administration::VolumeStatus;
pub use back_pressure::WriterWaitCounts;
pub use budget::VolumesMemory;
pub use checkpointer::{CheckpointCounts, CheckpointStep};
pub use decisions::{AccessOptions, DecisionCounters, Switches};
pub use direct::DirectLimits;
pub use handle::VolumeHandle;
pub use journal::{
    Inspection, Journal, JournalDamage, JournalOptions, JournalUsage, LostWrites, Record,
};
pub use kept::KeptWrites;
pub use levels::Thresholds;
pub use memory::MemoryByOwner;
pub use placing::{JournalPlacement, inspect_journal, journal_place, recorded_losses};
pub use reservations::kept_reservations;
pub use states::States;
pub use tally::{CacheMeter, CacheTally};
pub use tracing::{stored_amplified, stored_heat};
pub use view::View;

use backing::Backing;
use classes::{CLASSES, ClassSettings};
use duet::Duet;
use engine::Engine;
use fetcher::FetchThreads;
use format::volume::VolumeRecord;
use journal::{JournalDisks, PlaceKeeper};
use live::LiveVolume;
use overlay::Overlay;
use page_cache::PageCache;
use parking_lot::Mutex;
use pool_journal::open_journal;
use registry::Registered;
use replaying::enter;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{LaneOptions, Pool, Result};
use units::{Fingerprint, JournalPosition, VolumeId};

/// Options of open volumes.
#[derive(Clone, Copy, Debug)]
pub struct VolumesOptions {
    /// Size of the journal.
    pub journal: JournalOptions,
    /// Memory that [`VolumesMemory`] divides, bytes.
    pub memory_bytes: u64,
    /// Levels at which checkpoints begin and end.
    pub thresholds: Thresholds,
    /// How chunks of volumes are packed into containers.
    pub lane: LaneOptions,
    /// Which writes bypass the journal.
    pub direct: DirectLimits,
    /// How reads and destaging follow access patterns.
    pub access: AccessOptions,
}

/// All open volumes of a pool.
pub struct Volumes {
    /// Dropped first: no thread may fetch while the other fields are dropped.
    _fetching: FetchThreads,
    engine: Arc<Engine>,
    duet: Arc<Duet>,
    /// Record of where the journal is.
    place: Mutex<PlaceKeeper>,
}

impl Volumes {
    /// Opens the volumes with the journal on these disks, which `place` records.
    fn open_on(
        pool: &Arc<Pool>,
        options: &VolumesOptions,
        disks: &JournalDisks,
        place: PlaceKeeper,
    ) -> Result<Self> {
        let pool = Arc::clone(pool);
        let records = pool.volumes()?;
        let mut overlays: BTreeMap<VolumeId, (VolumeRecord, Overlay)> = records
            .into_iter()
            .map(|record| (record.id, (record, Overlay::default())))
            .collect();
        let from = JournalPosition(pool.record().journal_position);
        let holds = |fingerprint: &Fingerprint| pool.holds_chunk(fingerprint);
        let replay =
            &mut |position, record: Record<'_>| enter(&mut overlays, position, &record, &holds);
        let (journal, damage) = open_journal(&pool, disks, &options.journal, from, replay)?;
        // If the journal's files were deleted, the new journal starts above every applied position.
        let applied = overlays.values().map(|(record, _)| record.applied).max();
        journal.raise(applied.unwrap_or_default().max(from));
        let memory = VolumesMemory::of(options.memory_bytes, options.journal.bytes_max);
        let mut seed = [0; 8];
        pool.media().random.fill(&mut seed);
        let seed = u64::from_le_bytes(seed);
        let duet = Duet::new(duet::DuetOptions {
            items_max: (memory.events / duet::ITEM_BYTES_MAX) as usize,
            seed: seed.rotate_left(32),
        });
        pool.tell_of_reads(&duet);
        let cache = PageCache::new(
            page_cache::PageCacheOptions::new(memory.pages, seed),
            Box::new(page_cache::S3Fifo::new(options.memory_bytes)),
            Arc::<Duet>::clone(&duet),
        );
        let backing = Backing::new(pool, journal, cache, options, &memory);
        let engine = Engine::new(Arc::new(backing), options, &memory, damage);
        for (id, (record, overlay)) in overlays {
            let registered = register(&engine, record, overlay);
            engine.registry.lock().insert(id, registered);
        }
        let engine = Arc::new(engine);
        Ok(Self {
            _fetching: FetchThreads::start(&engine.fetcher, options.access.fetch_threads),
            engine,
            duet,
            place: Mutex::new(place),
        })
    }

    /// Returns the pool of the volumes.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.engine.backing.pool
    }

    /// Returns the volume of this name.
    pub fn volume(&self, name: &str) -> Option<VolumeHandle> {
        let registry = self.engine.registry.lock();
        let registered = registry.values().find(|r| r.record.name == name)?;
        Some(VolumeHandle::new(
            Arc::clone(&self.engine),
            Arc::clone(&registered.volume),
            name,
        ))
    }

    /// Does a bounded part of background work, about `budget_bytes`. The server's destager thread,
    /// or a simulator, calls this again and again.
    pub fn step(&self, budget_bytes: u64) -> Result<CheckpointStep> {
        self.engine.checkpointer.step(budget_bytes)
    }

    /// Like [`Volumes::step`], but a checkpoint that begins stores at most about `room_bytes`;
    /// other writes stay in the journal. [`Volumes::step`] limits it to the pool's free space.
    pub fn step_within(&self, budget_bytes: u64, room_bytes: u64) -> Result<CheckpointStep> {
        let mut driver = self.engine.checkpointer.driver.lock();
        self.engine
            .checkpointer
            .step_within(&mut driver, budget_bytes, Some(room_bytes))
    }

    /// Returns true while checkpoints are due. `under_way`: one has begun, so the lower threshold
    /// counts.
    pub fn wants_checkpoint(&self, under_way: bool) -> bool {
        self.engine.levels.wants_checkpoint(under_way)
    }

    /// Waits until writers need a checkpoint, at most `at_most`. Returns true if they do.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        self.engine.checkpointer.signal.wait_for_work(at_most)
    }

    /// Ends the waits of [`Volumes::wait_for_work`].
    pub fn wake(&self) {
        self.engine.checkpointer.signal.wake();
    }

    /// Makes writers wait while the pool's disk has less free space than `bytes`; 0 ends that. The
    /// thread that frees space calls this. [`Volumes::step`] does not wait.
    pub fn keep_free(&self, bytes: u64) {
        self.engine.back_pressure.waits.keep_free(bytes);
    }

    /// Waits until writers need not wait for space, at most `at_most`. Returns true if they still
    /// wait.
    pub fn wait_while_held_back(&self, at_most: Duration) -> bool {
        self.engine
            .back_pressure
            .waits
            .wait_while_held_back(at_most)
    }

    /// Returns how often writers waited for space on the disk.
    pub fn writer_wait_counts(&self) -> WriterWaitCounts {
        self.engine.back_pressure.waits.counts()
    }

    /// Checkpoints everything, so that nothing is left to replay.
    pub fn checkpoint(&self) -> Result<()> {
        while self.step(u64::MAX)? != CheckpointStep::Idle {}
        Ok(())
    }

    /// Returns when every acknowledged write survives power loss.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Flushes, and records the exact end of the journal. Called before the process ends, and after
    /// the last write.
    pub fn close(&self) -> Result<()> {
        self.engine.flush()?;
        self.engine.backing.journal.note_reach()?;
        self.note_empty_journal()
    }

    /// Returns how full the journal is, and its counters.
    pub fn journal_usage(&self) -> JournalUsage {
        self.engine.backing.journal.usage()
    }

    /// Returns the number of written bytes that bypassed the journal.
    pub fn direct_bytes(&self) -> u64 {
        self.engine.direct.bytes()
    }

    /// Returns about how much space, at most, the chunks of large writes need that are in open
    /// containers. Every flush stores these, so copies of garbage collection must leave it.
    pub fn open_container_bytes(&self) -> u64 {
        self.engine.direct.put_bytes()
    }

    /// Returns the counters of checkpoints.
    pub fn checkpoint_counts(&self) -> CheckpointCounts {
        self.engine.checkpointer.counts()
    }

    /// Returns the counters of decisions that follow access patterns.
    pub fn decision_counters(&self) -> DecisionCounters {
        let engine = &self.engine;
        engine
            .backing
            .meters
            .counters(engine.backing.pool.reader().counts())
    }

    /// Returns which decisions are on.
    pub fn switches(&self) -> Switches {
        self.engine.backing.access.switches
    }

    /// Fetches one planned part on this thread; for callers without fetch threads. Returns false if
    /// none is queued.
    pub fn fetch_step(&self) -> bool {
        self.engine.fetcher.step()
    }

    /// Returns where maintenance registers for events of pages.
    pub fn duet(&self) -> &Arc<Duet> {
        &self.duet
    }

    /// Returns the pages in memory, for sessions of [`Volumes::duet`].
    pub fn present(&self) -> &dyn duet::Present {
        &self.engine.backing.cache
    }

    /// Returns the recorded reads by object ([`store::Fragmentable::key`]): disjoint ranges in
    /// ascending order.
    pub fn heat(&self) -> BTreeMap<u64, Vec<fragpicker::HotRange>> {
        self.engine.backing.tracer.heat(&self.engine.backing.pool)
    }

    /// Returns the recorded short reads, by object, of bytes that random reads fetched in regions
    /// that are large for them: not merged, in any order.
    pub fn amplified(&self) -> BTreeMap<u64, Vec<fragpicker::HotRange>> {
        let backing = &self.engine.backing;
        backing.tracer.amplified(&backing.pool)
    }

    /// Switches the recording of reads.
    pub fn trace(&self, is_on: bool) {
        self.engine.backing.tracer.switch(is_on);
    }

    /// Stores the recorded reads for later runs of defragmentation. A failure loses heat only.
    pub fn store_trace(&self) -> std::result::Result<(), media::MediaError> {
        self.engine.backing.tracer.store(&self.engine.backing.pool)
    }

    /// Returns the volumes and their object numbers in the page cache.
    pub(crate) fn cache_numbers(&self) -> Vec<(VolumeId, u64)> {
        let registry = self.engine.registry.lock();
        let numbers = registry.iter().map(|(id, r)| (*id, r.volume.object));
        numbers.collect()
    }

    /// Changes how the page cache treats the classes of I/O, by number.
    pub fn set_classes(&self, settings: &[ClassSettings; CLASSES]) {
        self.engine.backing.cache.set_classes(settings);
    }

    /// Returns the counters of the page cache for each class.
    pub fn class_counters(&self) -> [page_cache::ClassCounters; CLASSES] {
        self.engine.backing.cache.class_counters()
    }

    /// Returns the counters of the page cache.
    pub fn cache_counters(&self) -> page_cache::Counters {
        self.engine.backing.cache.counters()
    }
}

fn register(engine: &Engine, record: VolumeRecord, overlay: Overlay) -> Registered {
    let object = engine.backing.new_object();
    let overlay = overlay.tallied_by(&engine.levels.pieces.active);
    let volume = LiveVolume::new(
        Arc::clone(&engine.backing),
        Arc::clone(&engine.direct),
        &record,
        object,
        overlay,
    );
    Registered {
        record,
        volume: Arc::new(volume),
    }
}
