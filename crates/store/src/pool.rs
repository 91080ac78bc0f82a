//! A pool: opened, read, written, checked. The face of this room.
//!
//! Invariant: at most one live writer (an advisory lock that dies with its process) and, should the
//! lock be bypassed, the put of the next root refuses the second. Readers need no lock: what a root
//! reaches never changes, and is not deleted while they hold it (`readers`).

use crate::budget::PoolMemory;
use crate::read_path::{ReadCounts, Reader, node_error};
use crate::recovery::{Basis, Opened, WRITERS, adopt};
use chunk_store::catalog::{
    InventoryEntry, read_parity, read_set_aside, read_trash, visit_readable,
};
use chunk_store::chunk_map::{ChunkMap, LookupCounts};
use chunk_store::container::ContainerReader;
use chunk_store::superblock::{
    MasterKey, NewSecret, Newest, Notes, SecretKey, SlotInfo, add_slot, commit_root, forget_slots,
    heal_config, heal_root, heal_slots, is_empty, put_config, read_config,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::SPLITTER_NUMBER;
use format::config::{Config, Seal};
use format::root::RootRecord;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot};
use media::{Barrier, DiskLock, Media, MediaErrorKind};
use parking_lot::{Mutex, MutexGuard};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Weak};
use units::{Fingerprint, Generation, PoolId};

#[cfg(test)]
mod chunk_map_tests;
mod collect;
mod examine;
mod hints;
mod holds;
mod keys;
mod known_damage;
mod moved;
mod open_snapshots;
mod parity;
mod readers;
mod records;
mod rehearsal;
mod repair;
mod scrub;
mod sessions;
mod trash;
mod trash_minimum;
mod unlocking;
mod volumes;

pub use hints::DamageHints;
pub use holds::Hold;
use holds::Holds;
pub use known_damage::KnownDamage;
use open_snapshots::OpenSnapshots;
pub(crate) use open_snapshots::SnapshotName;
pub use open_snapshots::{HolderKind, OpenSnapshot, SnapshotHolder, SnapshotRoot};
pub use readers::{HeldBack, ReaderSeen};
use readers::{Probing, ReadersHold};
pub use records::RecordSlots;
pub use repair::Repair;
pub use scrub::{Damaged, Verification};
pub use sessions::Purpose;
pub use unlocking::Unlocked;
pub use volumes::trace_key;

const LOCK: &str = "lock";

/// What a pool is made with.
pub struct InitOptions<'a> {
    /// Secrets that open it; none: not encrypted.
    pub secrets: &'a [NewSecret<'a>],
    /// Average content-defined chunk, bytes, a power of two.
    pub chunk_bytes_average: u32,
    /// Parity of containers, percent of their data; 0: none.
    pub parity_percent: u8,
}

/// How a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only: takes no lock, changes nothing.
    Read,
    /// Reading and writing: takes the lock, adopts and heals.
    Write,
}

/// Bytes of the pool by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounts {
    /// Containers.
    pub containers: u64,
    /// Their bytes.
    pub stored_bytes: u64,
    /// Plain bytes of unique chunks in all containers.
    pub unique_bytes: u64,
    /// Plain bytes of chunks that were stored before: an index was damaged when they came again, or
    /// a region that had been set aside was verified since.
    pub duplicate_bytes: u64,
    /// ... of the unique ones, those that a snapshot reaches.
    pub live_bytes: u64,
    /// Stored bytes that no snapshot needs, estimated per region by plain bytes, and all of what is
    /// set aside.
    pub reclaimable_bytes: u64,
    /// Stored bytes that only forgotten snapshots need, estimated the same way.
    pub forgotten_bytes: u64,
    /// Stored bytes of containers in the trash.
    pub trash_bytes: u64,
    /// Bytes as snapshots count them, all together.
    pub logical_bytes: u64,
    /// Unique chunks and nodes.
    pub chunks: u64,
    /// Memory that saying which are live took, bytes.
    pub mark_bytes: u64,
}

struct Head {
    generation: Generation,
    generation_highest: Generation,
    record: RootRecord,
    /// A commit began and did not end well: a newer root may exist.
    uncertain: bool,
    /// In the order of `WRITERS`.
    writers: [WriterState; WRITERS.len()],
}

/// One of the sequences of containers that this process writes.
#[derive(Default)]
struct WriterState {
    /// Containers of a crashed session: they enter the inventory with the next commit.
    adopted: Vec<InventoryEntry>,
    /// The session that is open, if any.
    session: Weak<Option<Hold>>,
    /// A session began and did not commit: what it left is found as after a crash.
    uncommitted: bool,
    /// Next container number.
    next_sequence: Arc<AtomicU64>,
}

/// An open pool.
pub struct Pool {
    media: Media,
    config: Config,
    master: MasterKey,
    opened_with: Option<SlotInfo>,
    containers: Arc<ContainerReader>,
    chunks: Arc<ChunkMap>,
    reader: Arc<Reader>,
    head: Mutex<Head>,
    /// Held while a commit is made: commits of sessions that go on side by side follow each other.
    /// The one lock that is held across device I/O.
    committing: Mutex<()>,
    /// Held while what dead sessions left is entered: sessions begin after that.
    entering: Mutex<()>,
    notes: Notes,
    lost_commits: Vec<Generation>,
    hints: Arc<DamageHints>,
    /// The newest commit, for who outlives the pool.
    newest: Arc<AtomicU64>,
    holds: Arc<Holds>,
    open_snapshots: Arc<OpenSnapshots>,
    /// Of a process that reads, as others see it.
    _reading: Option<ReadersHold>,
    unheld: Option<String>,
    probing: Probing,
    /// Lives as long as a collector does.
    collecting: Mutex<Weak<()>>,
    /// Of new containers.
    parity_percent: AtomicU8,
    replacing: parity::Replacing,
    /// Containers put back that readers had found damaged.
    restored: AtomicU64,
    /// Held while a writer lives.
    lock: Option<DiskLock>,
}

impl Pool {
    /// Makes an empty pool and returns when it is durable. `PoolExists` when there is one.
    pub fn init(media: &Media, options: &InitOptions<'_>) -> Result<()> {
        let _lock = media.disk.lock(LOCK)?;
        match read_config(&*media.blobs, &mut Notes::new()) {
            Err(e) if e.kind == StoreErrorKind::NoPool => {}
            Err(e) if !e.is_corruption() && e.kind != StoreErrorKind::Unsupported => return Err(e),
            // An init was interrupted before its first root: nothing was ever stored.
            Ok(_) if is_empty(&*media.blobs)? => {}
            _ => {
                let why = "choose an empty place, or remove it first";
                return Err(StoreError::new(StoreErrorKind::PoolExists, why));
            }
        }
        let mut pool = PoolId::default();
        media.random.fill(&mut pool.0);
        let mut bytes = [0; 32];
        media.random.fill(&mut bytes);
        let master = MasterKey::new(bytes);
        let encrypted = !options.secrets.is_empty();
        let config = Config {
            pool,
            features_compat: 0,
            features_ro_compat: 0,
            features_incompat: format::config::FEATURE_INCOMPAT_X86,
            created: media.clock.now(),
            seal: if encrypted {
                Seal::Aes256Gcm
            } else {
                Seal::None
            },
            clear_master_key: if encrypted { [0; 32] } else { bytes },
            splitter: SPLITTER_NUMBER,
            chunk_bytes_average: options.chunk_bytes_average,
            parity_percent: options.parity_percent,
        };
        if let Err(e) = Config::decode(&config.encode()) {
            return Err(StoreError::new(StoreErrorKind::Invalid, e.to_string()));
        }
        forget_slots(media)?;
        put_config(&*media.blobs, &config)?;
        for secret in options.secrets {
            add_slot(media, &config, &master, secret, Barrier::PoolBeforeRoot)?;
        }
        media.blobs.barrier(Barrier::PoolBeforeRoot)?;
        let record = RootRecord {
            committed: media.clock.now(),
            ..RootRecord::default()
        };
        commit_root(media, pool, &master, config.seal, Generation(1), &record)
    }

    /// Opens a pool: one that is not encrypted without a secret, one that is with one of its own;
    /// else `WrongKey`. `memory_bytes` are divided by [`PoolMemory`].
    pub fn open(
        media: Media,
        secret: Option<&SecretKey>,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> Result<Self> {
        let unlocked = Self::unlock(&media, secret)?;
        Self::open_unlocked(media, unlocked, mode, memory_bytes)
    }

    /// The same, of a pool whose key is known.
    pub fn open_unlocked(
        media: Media,
        unlocked: Unlocked,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> Result<Self> {
        Self::open_as(media, unlocked, mode, memory_bytes, None)
    }

    /// Opens a pool for reading, and keeps what its newest commit reaches from being deleted while it
    /// is open: `label` says who reads. [`Pool::unheld`] says if that was not possible.
    pub fn open_holding(
        media: Media,
        unlocked: Unlocked,
        memory_bytes: usize,
        label: &str,
    ) -> Result<Self> {
        Self::open_as(media, unlocked, OpenMode::Read, memory_bytes, Some(label))
    }

    fn open_as(
        media: Media,
        unlocked: Unlocked,
        mode: OpenMode,
        memory_bytes: usize,
        reader: Option<&str>,
    ) -> Result<Self> {
        let Unlocked {
            config,
            master,
            opened_with,
            mut notes,
        } = unlocked;
        let unknown = config.features_ro_compat & !format::config::FEATURES_RO_COMPAT_KNOWN;
        if mode == OpenMode::Write && unknown != 0 {
            let why = format!("writing needs features {unknown:#x}");
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
        let lock = match mode {
            OpenMode::Read => None,
            OpenMode::Write => Some(media.disk.lock(LOCK)?),
        };
        // Before the newest commit is looked for: see `readers`.
        let taken = reader.map(|label| ReadersHold::take(&media, config.pool, label));
        let (mut reading, unheld) = match taken {
            Some(Ok(hold)) => (Some(hold), None),
            Some(Err(e)) => (None, Some(e.to_string())),
            None => (None, None),
        };
        let (blobs, seal) = (Arc::clone(&media.blobs), config.seal);
        let containers = ContainerReader::new(blobs, config.pool, master.clone(), seal);
        let writable = mode == OpenMode::Write;
        let basis = Basis {
            media,
            pool: config.pool,
            master,
            seal,
            containers: Arc::new(containers),
            memory: PoolMemory::of(memory_bytes),
            writable,
        };
        let Some(opened) = basis.open_newest(&mut notes)? else {
            return Err(roots_gone());
        };
        let Opened {
            newest,
            chunks,
            reader,
        } = opened;
        let Newest {
            generation,
            record,
            generation_highest,
            unreadable,
        } = newest;
        if let Some(reading) = &mut reading {
            reading.narrow(generation);
        }
        let mut load = |f: &Fingerprint| reader.map_node(f);
        match read_set_aside(record.catalog, &mut load) {
            Ok(places) => places.into_iter().for_each(|p| chunks.set_aside(p)),
            Err(e) if e.is_corruption() => notes.push(format!("notes of damage: {e}")),
            Err(e) => return Err(e),
        }
        let parity_percent = match read_parity(record.catalog, &mut load) {
            Ok(percent) => percent.unwrap_or(config.parity_percent),
            Err(e) if e.is_corruption() => config.parity_percent,
            Err(e) => return Err(e),
        };
        match read_trash(record.catalog, &mut load) {
            Ok((_, containers)) if containers.is_empty() => {}
            Ok((_, containers)) => {
                let ids = containers.iter().map(|container| container.entry.id);
                chunks.quarantine.retired.add(ids);
            }
            Err(e) if e.is_corruption() => notes.push(format!("trash: {e}")),
            Err(e) => return Err(e),
        }
        let Basis {
            media,
            master,
            containers,
            ..
        } = basis;
        let mut head = Head {
            generation,
            generation_highest,
            record,
            uncertain: false,
            writers: Default::default(),
        };
        if writable {
            media.blobs.sweep()?;
            heal_config(&*media.blobs, &config)?;
            heal_slots(&media, config.pool, opened_with.as_ref())?;
            heal_root(&media, config.pool, (&master, seal), generation)?;
            for (writer, state) in WRITERS.into_iter().zip(&mut head.writers) {
                let record = &head.record;
                let adopted = adopt(&media, writer, record, &containers, &chunks, &mut notes)?;
                state.next_sequence = Arc::new(AtomicU64::new(adopted.next_sequence));
                state.adopted = adopted.entries;
            }
        }
        for lost in &unreadable {
            notes.push(format!(
                "commit {lost} cannot be read: what it added is lost"
            ));
        }
        let hints = DamageHints::open(&media.disk, config.pool);
        let pool = Self {
            media,
            config,
            master,
            opened_with,
            containers,
            chunks,
            reader,
            head: Mutex::new(head),
            committing: Mutex::default(),
            entering: Mutex::default(),
            notes,
            lost_commits: unreadable,
            hints,
            newest: Arc::new(AtomicU64::new(generation.0)),
            holds: Arc::default(),
            open_snapshots: Arc::default(),
            _reading: reading,
            unheld,
            probing: Probing::default(),
            collecting: Mutex::default(),
            parity_percent: AtomicU8::new(parity_percent),
            replacing: parity::Replacing::default(),
            restored: AtomicU64::new(0),
            lock,
        };
        pool.load_moved()?;
        pool.take_up_hints();
        // What is found from here on is news.
        pool.tell_of_damage();
        pool.keep_reserve();
        Ok(pool)
    }

    /// What lies below: files, clock, randomness. Who writes there keeps to names that are its own.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// The master key, and how what is stored is sealed with keys from it.
    pub fn sealing(&self) -> (&MasterKey, Seal) {
        (&self.master, self.config.seal)
    }

    /// Settings of the pool.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// True when both pools give a chunk the same fingerprint: they share a dedup domain, and what
    /// one of them has can be asked of the other without being read.
    pub fn shares_fingerprints_with(&self, other: &Self) -> bool {
        let of_nothing = |pool: &Self| pool.master.fingerprint_key().fingerprint(&[]);
        of_nothing(self) == of_nothing(other)
    }

    /// True when a chunk of these bytes has this name here: for who takes chunks from memory.
    pub fn is_called(&self, name: &Fingerprint, chunk: &[u8]) -> bool {
        self.containers.is_called(&[(*name, chunk)])
    }

    /// What was found damaged or missing while opening, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes.damage
    }

    /// Commits newer than the one that could be read: lost with what they added.
    pub fn lost_commits(&self) -> &[Generation] {
        &self.lost_commits
    }

    /// Number of the newest commit.
    pub fn generation(&self) -> Generation {
        self.head().generation
    }

    /// Number of the newest commit, kept up to date, also after the pool was closed.
    pub fn generation_cell(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.newest)
    }

    /// The newest commit.
    pub fn record(&self) -> RootRecord {
        self.head().record.clone()
    }

    /// Containers that a crashed run had stored and this writer will use.
    pub fn adopted(&self) -> Vec<InventoryEntry> {
        let head = self.head();
        let adopted = head.writers.iter().flat_map(|w| &w.adopted);
        adopted.copied().collect()
    }

    /// Verified chunks and objects.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// How fingerprints were found.
    pub fn lookup_counts(&self) -> LookupCounts {
        self.chunks.counts()
    }

    /// Memory of the fingerprint `index`, of `directories` of containers and of decoded `regions`: owner,
    /// bytes.
    pub fn memory_by_owner(&self) -> [(&'static str, u64); 3] {
        let index = self.chunks.index.counters().memory_bytes;
        [
            ("index", index),
            ("directories", self.chunks.directory_bytes() as u64),
            ("regions", self.reader.cached_bytes() as u64),
        ]
    }

    /// Why the fingerprint index could not be written, when that happened. It is a cache: what was
    /// stored is stored; the next process reads directories instead, and may be slow.
    pub fn index_failure(&self) -> Option<String> {
        self.chunks.index.write_failure().map(str::to_owned)
    }

    /// What reading cost.
    pub fn read_counts(&self) -> ReadCounts {
        self.reader.counts()
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock()
    }

    /// All snapshots, oldest first. `Corruption` when part of the catalog cannot be read.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        match self.snapshots_readable()? {
            (_, Some(damage)) => Err(damage),
            (snapshots, None) => Ok(snapshots),
        }
    }

    /// The snapshots that the readable part of the catalog names, oldest first, and the first
    /// damage to it. For who reads; nothing may be removed because it is not among these.
    pub fn snapshots_readable(&self) -> Result<(Vec<Snapshot>, Option<StoreError>)> {
        let catalog = self.head().record.catalog;
        let mut snapshots = Vec::new();
        let (mut damage, mut unreadable) = (None, None);
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        let _ = visit_readable(
            catalog,
            &[SNAPSHOT_KEY_TAG],
            &mut load,
            &mut |key, value| {
                if key.first() != Some(&SNAPSHOT_KEY_TAG) {
                    return Ok(ControlFlow::Break(()));
                }
                match Snapshot::decode(key, value) {
                    Ok(snapshot) => snapshots.push(snapshot),
                    Err(e) => {
                        unreadable.get_or_insert(e);
                    }
                }
                Ok(ControlFlow::Continue(()))
            },
            &mut |e| {
                damage.get_or_insert(e);
                Ok(())
            },
        )?;
        let at = catalog.unwrap_or_default();
        let damage = damage.or(unreadable.map(|e| node_error(&at, e)));
        Ok((snapshots, damage))
    }
}

/// Containers are there: something was stored, and `init` would be the end of it.
fn roots_gone() -> StoreError {
    let found = "no commit is left, though containers are: put this directory back from a copy of \
                 the pool, or copy the snapshots from a replica into a new pool; do not init here";
    StoreError::corruption("pool", "roots/", found)
}

fn unfinished() -> StoreError {
    let why = "its creation did not finish; init it again";
    StoreError::new(StoreErrorKind::NoPool, why)
}

/// True when a store error means that nothing was there to open.
pub fn is_no_pool(e: &StoreError) -> bool {
    matches!(
        e.kind,
        StoreErrorKind::NoPool | StoreErrorKind::Media(MediaErrorKind::NotFound)
    )
}
