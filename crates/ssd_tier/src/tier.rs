//! The tier as its callers see it: look up, offer, forget, status. `step` does its work.
//!
//! Invariant: nothing here waits for a write, or returns an error. No lock is held during a read.

use crate::Kind;
use crate::block::{open_frame, packed_bytes, room_of};
use crate::budget::WriteBudget;
use crate::class::{CacheClass, TierSettings};
use crate::ghosts::Ghosts;
use crate::health::Health;
use crate::index::{Found, Index, Place};
use crate::keys::{At, PoolKeys};
use crate::options::TierOptions;
use crate::slots::{Block, Slots};
use crate::staging::{Added, Staging};
use crate::status::{Counters, Status, TierState, add, value};
use crate::writer::Writer;
use classes::{Admission, CLASSES, known};
use format::tier::CHUNK_BYTES_MAX;
use media::{Disk, DiskFile, MediaError, Random};
use parking_lot::{Mutex, RwLock};
use std::io::ErrorKind;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering};
use units::{Fingerprint, IoClass, UnixNanos};

/// A chunk from the tier, verified.
pub struct Chunk(Bytes);

enum Bytes {
    Staged(Arc<[u8]>),
    Read(Vec<u8>, Range<usize>),
}

impl Chunk {
    /// Returns a buffer and the range of the chunk in it. Copies only chunks that were not written
    /// yet.
    pub fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        match self.0 {
            Bytes::Staged(bytes) => (bytes.to_vec(), 0..bytes.len()),
            Bytes::Read(frame, chunk) => (frame, chunk),
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Staged(bytes) => bytes,
            Bytes::Read(frame, chunk) => frame.get(chunk.clone()).unwrap_or_default(),
        }
    }
}

/// Answer to an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// It waits to be written, and can be found.
    Taken,
    /// It was here already.
    Present,
    /// Its class bypasses the tier, or no block holds it.
    Bypassed,
    /// There is no room for more chunks that wait, or no free slot for a class of low priority.
    Refused,
    /// The tier is off.
    Off,
}

/// The fast tier of one pool. Any thread may call all methods.
pub struct Tier {
    pub(crate) keys: Arc<dyn PoolKeys>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) random: Arc<dyn Random>,
    /// Path of the tier's file on `disk`.
    pub(crate) name: String,
    pub(crate) options: TierOptions,
    settings: RwLock<Arc<TierSettings>>,
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) staging: Staging,
    pub(crate) health: Health,
    pub(crate) counters: Counters,
    pub(crate) file: RwLock<Option<Arc<dyn DiskFile>>>,
    /// Time of the last step.
    pub(crate) now: AtomicI64,
    /// Slots whose blocks readers gave up.
    pub(crate) given_up: Mutex<Vec<(u32, CacheClass)>>,
    /// Slots and generations of blocks of which less than half is still needed, since the last
    /// step.
    pub(crate) hardly_needed: Mutex<Vec<(u32, u8)>>,
    /// Number of slots that were scanned.
    pub(crate) scanned: AtomicU32,
    /// The last step could have written another block.
    pub(crate) may_write: AtomicBool,
    /// The last step left a free slot.
    pub(crate) has_free_slot: AtomicBool,
    /// Numbers of the [`Admission`] of data chunks by class, so that a read need not look at the
    /// settings.
    admissions: [AtomicU8; CLASSES],
    /// Measures what other settings would bring.
    pub(crate) ghosts: Ghosts,
    pub(crate) writer: Mutex<Option<Writer>>,
}

impl Tier {
    /// Makes a tier whose blocks are in the file `name` of `disk`. Does no I/O: the first
    /// [`step`](Self::step) opens the file, or makes it.
    ///
    /// The file is the tier's own: whatever else it holds is overwritten. Its name should contain
    /// the pool's, so that the tiers of two pools can share a directory.
    pub fn new(
        disk: Arc<dyn Disk>,
        name: &str,
        keys: Arc<dyn PoolKeys>,
        random: Arc<dyn Random>,
        options: TierOptions,
        settings: TierSettings,
    ) -> Self {
        let slots = options.slots();
        let mut salt = [0; 8];
        random.fill(&mut salt);
        let daily = u128::from(options.capacity_bytes);
        let daily = daily * u128::from(options.daily_writes_hundredths) / 100;
        let daily = u64::try_from(daily).unwrap_or(u64::MAX);
        let budget = WriteBudget::new(daily, u64::from(options.block_bytes));
        let tier = Self {
            keys,
            disk,
            random,
            name: name.to_owned(),
            index: Index::new(options.index_bytes(slots)),
            slots: Slots::new(slots),
            staging: Staging::new(options.staging_bytes(), options.block_bytes),
            options,
            settings: RwLock::new(Arc::new(settings)),
            health: Health::default(),
            counters: Counters::default(),
            file: RwLock::default(),
            now: AtomicI64::new(i64::MIN),
            given_up: Mutex::default(),
            hardly_needed: Mutex::default(),
            scanned: AtomicU32::new(0),
            may_write: AtomicBool::new(false),
            has_free_slot: AtomicBool::new(false),
            admissions: std::array::from_fn(|_| AtomicU8::default()),
            ghosts: Ghosts::new(u64::from_le_bytes(salt)),
            writer: Mutex::new(Some(Writer::new(budget))),
        };
        tier.note_settings();
        tier
    }

    fn note_settings(&self) {
        let settings = self.settings();
        let slots = settings.slots_of_kind(Kind::Data, self.slots.count().into());
        self.ghosts
            .set_capacity(slots * room_of(self.options.block_bytes));
        for (class, admission) in (0..).map(IoClass).zip(&self.admissions) {
            admission.store(settings.admission(class) as u8, Ordering::Relaxed);
        }
    }

    /// Returns what the tier takes of data chunks of a class. The caller obeys it, except that the
    /// tier itself refuses what it never takes, and takes what is low only while it has free slots.
    #[inline]
    pub fn admission(&self, class: IoClass) -> Admission {
        let number = self.admissions.get(usize::from(known(class).0));
        let number = number.map_or(0, |number| number.load(Ordering::Relaxed));
        let admission = Admission::ALL.get(usize::from(number));
        admission.copied().unwrap_or(Admission::Never)
    }

    /// Returns true if there is no free slot for data of a class that displaces nothing.
    fn lacks_room_for(&self, class: CacheClass) -> bool {
        class.kind == Kind::Data
            && self.admission(class.io) == Admission::WhileFree
            && !self.has_free_slot.load(Ordering::Relaxed)
    }

    /// Returns the chunk, verified: its bytes have the fingerprint. At most one read of the device.
    ///
    /// A container directory has no fingerprint of its own. Its `fingerprint` is one of its name,
    /// and only seal or checksum vouch for the bytes: they are what was offered under that name at
    /// some time. The caller treats them as a hint.
    pub fn lookup(&self, fingerprint: &Fingerprint, kind: Kind) -> Option<Chunk> {
        if !self.health.is_up() {
            return None;
        }
        let now = UnixNanos(self.now.load(Ordering::Relaxed));
        match self.index.find(fingerprint, kind, &self.slots, now) {
            Found::Nothing => None,
            Found::Staged(bytes) => {
                add(&self.counters.hits_staged, 1);
                Some(Chunk(Bytes::Staged(bytes)))
            }
            Found::At(place, block) => {
                let chunk = self.read(fingerprint, kind, place, &block);
                match chunk {
                    Some(_) => self.counters.hit(block.class),
                    None => self.index.count_miss(fingerprint, kind),
                }
                chunk
            }
        }
    }

    /// Returns true if [`lookup`](Self::lookup) would read or return the chunk. Not a use.
    pub fn contains(&self, fingerprint: &Fingerprint) -> bool {
        self.health.is_up() && self.index.contains(fingerprint, &self.slots)
    }

    fn read(
        &self,
        fingerprint: &Fingerprint,
        kind: Kind,
        place: Place,
        block: &Block,
    ) -> Option<Chunk> {
        let file = self.file.read().clone()?;
        let slot_at = u64::from(place.slot) * u64::from(self.options.block_bytes);
        let mut frame = vec![0; place.len as usize];
        let read = file.read_at_past_cache(slot_at + u64::from(place.offset), &mut frame);
        if let Err(why) = read {
            self.give_up(place);
            if is_end_of_file(&why) {
                // Somebody truncated it. The device works.
                add(&self.counters.damaged, 1);
            } else {
                add(&self.counters.failed_reads, 1);
                match is_late(&why) {
                    // Each further one would cost its caller as long.
                    true => self.health.shut_down(&why.to_string()),
                    false => self.health.read_failed(&why.to_string()),
                }
            }
            return None;
        }
        self.health.worked();
        let at = At {
            sequence: block.sequence,
            offset: place.offset,
        };
        let chunk = open_frame(&block.by, at, fingerprint, &mut frame);
        let is_right = |chunk: &Range<usize>| {
            let is_named = kind == Kind::Directory;
            let bytes = frame.get(chunk.clone()).unwrap_or_default();
            // Invariant 2 of the design: served bytes were verified against their fingerprint.
            is_named == (block.class.kind == Kind::Directory)
                && (is_named || self.keys.fingerprint(bytes) == *fingerprint)
        };
        if let Some(chunk) = chunk.filter(is_right) {
            return Some(Chunk(Bytes::Read(frame, chunk)));
        }
        // The slot may have been written in the meantime. Otherwise the block is torn, damaged or
        // old, and so may be the rest of it.
        if self.slots.is_current(place.slot, place.generation) {
            add(&self.counters.damaged, 1);
            self.give_up(place);
        }
        None
    }

    /// Stops using a block that could not be read.
    fn give_up(&self, place: Place) {
        let vacated = self.slots.vacate_generation(place.slot, place.generation);
        if let Some(class) = vacated {
            self.given_up.lock().push((place.slot, class));
        }
    }

    /// Offers a chunk whose bytes the caller has verified. `class` counts for data chunks.
    ///
    /// The caller decides what is worth it: reads offer by class ([`Self::admission`]) and access
    /// pattern, writes for important classes and for the chunks that they read to modify.
    pub fn offer(
        &self,
        fingerprint: &Fingerprint,
        kind: Kind,
        class: IoClass,
        bytes: &[u8],
    ) -> Offer {
        let class = CacheClass::new(kind, class);
        if !self.health.is_up() || self.options.is_reading {
            return Offer::Off;
        }
        let settings = self.settings();
        let is_possible = (1..=CHUNK_BYTES_MAX).contains(&bytes.len())
            && packed_bytes(bytes.len()) <= room_of(self.options.block_bytes);
        if !is_possible || fingerprint.is_hole() || settings.bypasses(class) {
            return Offer::Bypassed;
        }
        if self.index.contains(fingerprint, &self.slots) {
            return Offer::Present;
        }
        if self.lacks_room_for(class) {
            add(&self.counters.refused, 1);
            return Offer::Refused;
        }
        let bytes: Arc<[u8]> = Arc::from(bytes);
        if !self
            .index
            .stage(fingerprint, Arc::clone(&bytes), &self.slots)
        {
            return Offer::Present;
        }
        match self.staging.add(class, (*fingerprint, bytes), &settings) {
            Added::Yes => Offer::Taken,
            Added::Displacing(others) => {
                add(&self.counters.refused, others.len() as u64);
                others.iter().for_each(|other| {
                    self.index.unstage(other);
                });
                Offer::Taken
            }
            Added::No => {
                add(&self.counters.refused, 1);
                self.index.unstage(fingerprint);
                Offer::Refused
            }
        }
    }

    /// Returns true if data chunks of the class that nobody asked for are welcome: the tier takes
    /// them and may write them soon, and they take no room from chunks that were asked for. Who
    /// reads ahead into the tier asks this first.
    pub fn wants_more(&self, class: IoClass) -> bool {
        self.health.is_up()
            && self.may_write.load(Ordering::Relaxed)
            && self.admission(class) != Admission::Never
            && !self.lacks_room_for(CacheClass::new(Kind::Data, class))
            && self.staging.memory_bytes() * 2 < self.options.staging_bytes()
    }

    /// Forgets a chunk that is hardly needed any more: what it belonged to was overwritten. The
    /// device still has it: it may be found again after a restart. A block of which less than half
    /// is still needed is the first to make room for another.
    pub fn forget(&self, fingerprint: &Fingerprint) {
        if let Some(place) = self.index.remove(fingerprint) {
            self.lose(&place);
        }
    }

    /// Notes that a chunk in a block is no longer needed.
    pub(crate) fn lose(&self, place: &Place) {
        if self.slots.lose(place.slot, place.generation, place.len) {
            let mut hardly_needed = self.hardly_needed.lock();
            hardly_needed.push((place.slot, place.generation));
        }
    }

    /// Forgets a container directory that the caller found to be wrong, and counts it as damaged.
    pub fn reject(&self, name: &Fingerprint) {
        add(&self.counters.damaged, 1);
        self.forget(name);
    }

    /// Returns the settings of the classes.
    pub fn settings(&self) -> Arc<TierSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Replaces the settings. Blocks that are here stay until others need their slots.
    pub fn set_settings(&self, settings: TierSettings) {
        *self.settings.write() = Arc::new(settings);
        self.note_settings();
    }

    /// Returns an upper limit for the memory of the tier, bytes. It does not change.
    pub fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
            + self.options.staging_bytes()
            + self.options.fixed_bytes(self.slots.count())
    }

    /// Returns how the tier is.
    pub fn status(&self) -> Status {
        let counters = &self.counters;
        let classes = counters.classes();
        let staged = value(&counters.hits_staged);
        Status {
            state: self.state(),
            hits: staged + classes.iter().map(|c| c.hits).sum::<u64>(),
            hits_staged: staged,
            misses: self.index.misses(),
            bytes_written: classes.iter().map(|c| c.bytes_written).sum(),
            classes,
            staged_bytes: self.staging.memory_bytes(),
            evictions: value(&counters.evictions),
            refused: value(&counters.refused),
            failed_reads: value(&counters.failed_reads),
            failed_writes: value(&counters.failed_writes),
            damaged: value(&counters.damaged),
            slots_full: self.slots.full(),
            slots: u64::from(self.slots.count()),
            chunks: self.index.places(),
            memory_bytes: self.memory_bytes(),
        }
    }

    fn state(&self) -> TierState {
        let (done, total) = (self.scanned.load(Ordering::Relaxed), self.slots.count());
        match (self.health.is_up(), self.health.reason()) {
            (false, Some(reason)) => TierState::Off { reason },
            (false, None) => TierState::Closed,
            (true, _) if done < total => TierState::Opening { done, total },
            (true, Some(reason)) => TierState::NotWritten { reason },
            (true, None) => TierState::Ready,
        }
    }
}

/// Returns true if the device did not answer in time.
fn is_late(why: &MediaError) -> bool {
    let source = why.source.as_ref();
    source.is_some_and(|source| source.kind() == ErrorKind::TimedOut)
}

/// Returns true if the file ends before the bytes.
pub(crate) fn is_end_of_file(why: &MediaError) -> bool {
    let source = why.source.as_ref();
    source.is_some_and(|source| source.kind() == ErrorKind::UnexpectedEof)
}
