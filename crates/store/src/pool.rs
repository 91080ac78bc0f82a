//! A pool: opens, reads, writes, checks. It is the interface of this crate; the program, `volumes`,
//! `maintenance` and `archive` call it.
//!
//! ```text
//! unlocking -> open: recovery, quarantine, trash, damage hints -> Pool
//! Pool -> sessions (write), reader (read), examine (check), collect (gc), scrub, repair
//! ```
//!
//! Invariant: at most one live process writes: an advisory lock, which ends with its process. If
//! the lock is bypassed, the put of the next root fails for the second writer. Readers need no
//! lock: what a root reaches never changes, and is not deleted while they hold it (`readers`).

use crate::budget::PoolMemory;
use crate::recovery::{Basis, Opened, WRITERS, left_by};
use chunk_store::catalog::{
    InventoryEntry, read_parity, read_quarantine, read_trash, visit_readable,
};
use chunk_store::chunk_map::{ChunkMap, LookupCounts};
use chunk_store::container::ContainerReader;
use chunk_store::superblock::{
    MasterKey, NewSecret, Newest, Notes, SecretKey, SlotInfo, add_slot, commit_root, forget_slots,
    is_empty, put_config, read_config, repair_config, repair_root, repair_slots,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::SPLITTER_NUMBER;
use format::config::{Config, Seal};
use format::root::RootRecord;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot};
use media::{Barrier, DiskLock, Media, MediaErrorKind};
use parking_lot::Mutex;
use read_path::{ReadCounts, Reader, node_error};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use units::{Fingerprint, Generation, PoolId};

mod adopting;
#[cfg(test)]
mod approach_tests;
#[cfg(test)]
mod chunk_map_tests;
mod collect;
mod commits;
mod dry_run;
mod examine;
mod failed_streams;
mod fast;
#[cfg(test)]
mod fast_directories_tests;
#[cfg(test)]
mod fast_tier_tests;
mod health;
mod hints;
mod holders;
mod holds;
mod keys;
mod known_damage;
mod moved;
mod open_snapshots;
mod parity;
mod readers;
mod records;
mod repair;
mod scrub;
mod sessions;
mod storage;
mod trash;
mod trash_minimum;
mod unlocking;
mod upgrade;
mod volumes;

pub use adopting::Watch;
pub(crate) use commits::Commits;
use commits::Head;
pub use commits::Purpose;
pub use health::Health;
pub use hints::DamageHints;
pub use holders::Holders;
pub use holds::Hold;
pub use keys::Keys;
pub use known_damage::KnownDamage;
pub(crate) use open_snapshots::SnapshotName;
pub use open_snapshots::{HolderKind, OpenSnapshot, SnapshotHolder, SnapshotRoot};
use readers::ReadersHold;
pub use readers::{HeldBack, ReaderSeen};
pub use records::RecordSlots;
pub use repair::Repair;
pub use scrub::{Damaged, Verification};
use storage::PoolStorage;
pub use unlocking::Unlocked;
pub use volumes::trace_key;

const LOCK: &str = "lock";

/// Options of a new pool.
pub struct InitOptions<'a> {
    /// Secrets that open it. None: the pool is not encrypted.
    pub secrets: &'a [NewSecret<'a>],
    /// Average size of content-defined chunks, bytes, a power of two.
    pub chunk_bytes_average: u32,
    /// Parity of containers, percent of their data; 0: none.
    pub parity_percent: u8,
}

/// Selects how a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only: takes no lock, changes nothing.
    Read,
    /// Reading and writing: takes the lock, adopts containers of crashed sessions, repairs second
    /// copies.
    Write,
}

/// Use of the pool's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounts {
    /// Number of containers.
    pub containers: u64,
    /// Their stored size, bytes.
    pub stored_bytes: u64,
    /// Length of the unique chunks in all containers, bytes.
    pub unique_bytes: u64,
    /// Length of further copies of chunks, bytes. They exist if an index was damaged when the chunk
    /// was stored again, or if a region was verified and taken out of quarantine since.
    pub duplicate_bytes: u64,
    /// Part of `unique_bytes` that a snapshot reaches.
    pub live_bytes: u64,
    /// Stored bytes that no snapshot needs, estimated for each region by chunk lengths, and all of
    /// the quarantine.
    pub garbage_bytes: u64,
    /// Stored bytes that only forgotten snapshots need, estimated the same way.
    pub forgotten_bytes: u64,
    /// Stored bytes of containers in the trash.
    pub trash_bytes: u64,
    /// Sum of the logical sizes of all snapshots, bytes.
    pub logical_bytes: u64,
    /// Number of volumes.
    pub volumes: u64,
    /// Sum of their sizes, bytes.
    pub volumes_bytes: u64,
    /// Logical sizes of the snapshots and volumes that have any data, bytes. Those of holes alone
    /// deduplicate nothing.
    pub filled_bytes: u64,
    /// Number of unique chunks and nodes.
    pub chunks: u64,
    /// Memory of the marks, bytes.
    pub mark_bytes: u64,
}

/// An open pool: its storage, and parts that own their state.
pub struct Pool {
    storage: Arc<PoolStorage>,
    commits: Arc<Commits>,
    keys: Keys,
    holders: Holders,
    health: Health,
    /// Token that lives as long as a garbage collection run.
    collecting: Mutex<Weak<()>>,
}

impl Pool {
    /// Creates an empty pool and returns when it is durable. Fails with `PoolExists` if there is
    /// one.
    pub fn init(media: &Media, options: &InitOptions<'_>) -> Result<()> {
        let _lock = media.disk.lock(LOCK)?;
        match read_config(&*media.blobs, &mut Notes::new()) {
            Err(e) if e.kind == StoreErrorKind::NoPool => {}
            Err(e) if !e.is_corruption() && e.kind != StoreErrorKind::Unsupported => return Err(e),
            // An init was interrupted before its first root: nothing was ever stored.
            Ok(_) if is_empty(&*media.blobs)? => {}
            _ => {
                let why = "choose another directory, or delete that pool first";
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
            features_incompat: format::config::FEATURES_INCOMPAT_KNOWN,
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

    /// Opens a pool: an unencrypted one without a secret, an encrypted one with one of its secrets.
    /// Otherwise fails with `WrongKey`. [`PoolMemory`] divides `memory_bytes`.
    pub fn open(
        media: Media,
        secret: Option<&SecretKey>,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> Result<Self> {
        let unlocked = Self::unlock(&media, secret)?;
        Self::open_unlocked(media, unlocked, mode, memory_bytes)
    }

    /// Opens a pool whose key is known.
    pub fn open_unlocked(
        media: Media,
        unlocked: Unlocked,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> Result<Self> {
        Self::open_as(media, unlocked, mode, memory_bytes, None)
    }

    /// Opens a pool for reading, and prevents the deletion of everything that its newest commit
    /// reaches while it is open. `label` names the reader. [`Pool::unheld`] returns the cause if
    /// that was not possible.
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
            mut config,
            master,
            opened_with,
            mut notes,
            mut watch,
        } = unlocked;
        let lock = take_lock(&media, &config, mode)?;
        // Before the newest commit is looked up: see `readers`.
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
            return Err(roots_missing());
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
        let parity_percent = apply_catalog(&record, &config, &chunks, &reader, &mut notes)?;
        let Basis {
            media,
            master,
            containers,
            ..
        } = basis;
        let mut left = Vec::new();
        let mut head = Head {
            generation,
            generation_highest,
            record,
            uncertain: false,
            writers: Default::default(),
        };
        if writable {
            config = repair_copies(&media, config, &master, opened_with.as_ref(), generation)?;
            for (writer, state) in WRITERS.into_iter().zip(&mut head.writers) {
                let of_writer = left_by(&media, writer, &head.record)?;
                state.next_sequence = Arc::new(AtomicU64::new(of_writer.next_sequence));
                left.push(of_writer.containers);
            }
        }
        for lost in &unreadable {
            notes.push(format!(
                "commit {lost} cannot be read: what it added is lost"
            ));
        }
        let storage = Arc::new(PoolStorage {
            media,
            features: AtomicU64::new(config.features_incompat),
            features_ro: AtomicU64::new(config.features_ro_compat),
            config,
            master,
            containers,
            chunks,
            reader,
            lock,
        });
        let commits = Arc::new(Commits::new(&storage, head, parity_percent));
        let mut pool = Self {
            keys: Keys::new(&storage, opened_with),
            holders: Holders::new(&storage, &commits, reading, unheld),
            health: Health::new(&storage, &commits, notes, unreadable),
            collecting: Mutex::default(),
            storage,
            commits,
        };
        pool.load_moved()?;
        if writable {
            pool.adopt_all(&left, &mut watch)?;
        }
        pool.health.take_up_hints();
        // Damage found from here on was not known before.
        pool.health.tell_of_damage();
        pool.keep_reserve();
        Ok(pool)
    }

    /// Returns the key slots.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns what clients and other processes have open.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }

    /// Returns what is known of damage.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Holds the newest generation. Take it before reading names from the catalog.
    pub fn hold(&self) -> Hold {
        self.commits.hold()
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Returns true if a crashed session with this purpose left containers that no commit has
    /// entered yet.
    pub fn has_adopted(&self, purpose: Purpose) -> bool {
        self.commits.has_adopted(purpose)
    }

    /// Returns files, clock and randomness of the pool. A caller that writes there must use names
    /// of its own.
    pub fn media(&self) -> &Media {
        &self.storage.media
    }

    /// Returns the master key and the seal of the pool.
    pub fn sealing(&self) -> (&MasterKey, Seal) {
        self.storage.sealing()
    }

    /// Returns the settings of the pool as they were when it was opened.
    pub fn config(&self) -> &Config {
        &self.storage.config
    }

    /// Returns true if both pools give a chunk the same fingerprint. They then share a dedup
    /// domain, and one can be asked for chunks of the other without reading them.
    pub fn shares_fingerprints_with(&self, other: &Self) -> bool {
        let of_nothing = |pool: &Self| pool.storage.master.fingerprint_key().fingerprint(&[]);
        of_nothing(self) == of_nothing(other)
    }

    /// Returns true if these bytes have this fingerprint here, for callers that take chunks from
    /// memory.
    pub fn is_called(&self, name: &Fingerprint, chunk: &[u8]) -> bool {
        self.storage.containers.is_called(&[(*name, chunk)])
    }

    /// Returns the newest generation.
    pub fn generation(&self) -> Generation {
        self.commits.generation()
    }

    /// Returns the cell of the newest generation. It can be read after the pool was closed.
    pub fn generation_cell(&self) -> Arc<AtomicU64> {
        self.commits.generation_cell()
    }

    /// Returns the newest root record.
    pub fn record(&self) -> RootRecord {
        self.commits.record()
    }

    /// Returns the containers of crashed sessions that this writer will use.
    pub fn adopted(&self) -> Vec<InventoryEntry> {
        let head = self.commits.head();
        let adopted = head.writers.iter().flat_map(|w| &w.adopted);
        adopted.copied().collect()
    }

    /// Returns the reader of verified chunks and objects.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.storage.reader
    }

    /// Returns the counts of lookups.
    pub fn lookup_counts(&self) -> LookupCounts {
        self.storage.chunks.counts()
    }

    /// Returns the memory of the fingerprint `index`, of the `directories` of containers and of
    /// decoded `regions`: (owner, bytes).
    pub fn memory_by_owner(&self) -> [(&'static str, u64); 3] {
        let index = self.storage.chunks.index.counters().memory_bytes;
        [
            ("index", index),
            ("directories", self.storage.chunks.directory_bytes() as u64),
            ("regions", self.storage.reader.cached_bytes() as u64),
        ]
    }

    /// Returns the counts of reads.
    pub fn read_counts(&self) -> ReadCounts {
        self.storage.reader.counts()
    }

    /// Returns all snapshots in the order of [`Pool::snapshots_readable`]. Fails with `Corruption`
    /// if a part of the catalog cannot be read.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        match self.snapshots_readable()? {
            (_, Some(damage)) => Err(damage),
            (snapshots, None) => Ok(snapshots),
        }
    }

    /// Returns the snapshots in the readable part of the catalog, and its first damage. For readers
    /// only: nothing may be removed because it is missing here.
    ///
    /// The order is oldest first, by time and then by id. Snapshots from the future of the pool's
    /// clock come before all others, so that the last one of a source is its newest.
    pub fn snapshots_readable(&self) -> Result<(Vec<Snapshot>, Option<StoreError>)> {
        let held = self.commits.held();
        let catalog = held.catalog();
        let mut snapshots = Vec::new();
        let (mut damage, mut unreadable) = (None, None);
        let mut load = self.storage.map_node();
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
        let now = self.now();
        let ahead = snapshots.partition_point(|snapshot| !snapshot.taken.is_ahead_of(now));
        snapshots.rotate_left(ahead);
        let at = catalog.unwrap_or_default();
        let damage = damage.or(unreadable.map(|e| node_error(&at, e)));
        Ok((snapshots, damage))
    }
}

/// Takes the pool's lock for a writer that knows all its features.
fn take_lock(media: &Media, config: &Config, mode: OpenMode) -> Result<Option<DiskLock>> {
    if mode == OpenMode::Read {
        return Ok(None);
    }
    let unknown = config.features_ro_compat & !format::config::FEATURES_RO_COMPAT_KNOWN;
    if unknown != 0 {
        let why = format!("writing needs features {unknown:#x}: use a newer quintet");
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    }
    Ok(Some(media.disk.lock(LOCK)?))
}

/// Applies the quarantine and the trash of the newest catalog. Returns the parity of new
/// containers, percent. Damage is noted, and opening goes on without that part.
fn apply_catalog(
    record: &RootRecord,
    config: &Config,
    chunks: &ChunkMap,
    reader: &Reader,
    notes: &mut Notes,
) -> Result<u8> {
    let mut load = |f: &Fingerprint| reader.map_node(f);
    match read_quarantine(record.catalog, &mut load) {
        Ok(places) => places.into_iter().for_each(|p| chunks.put_in_quarantine(p)),
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
    Ok(parity_percent)
}

/// Removes what crashed puts left, and repairs second copies of config, key slots and root. Returns
/// the config that both copies have.
fn repair_copies(
    media: &Media,
    config: Config,
    master: &MasterKey,
    opened_with: Option<&SlotInfo>,
    generation: Generation,
) -> Result<Config> {
    media.blobs.sweep()?;
    let config = repair_config(&*media.blobs, config)?;
    repair_slots(media, config.pool, opened_with)?;
    repair_root(media, config.pool, (master, config.seal), generation)?;
    Ok(config)
}

/// There are containers, so something was stored, and `init` would destroy it.
fn roots_missing() -> StoreError {
    let found = "containers exist, and no commit. Restore roots/ from a copy of the pool, or copy the \
                 snapshots from a replica into a new pool. Do not init here";
    StoreError::corruption("pool", "roots/", found)
}

fn unfinished() -> StoreError {
    let why = "the creation of the pool did not finish; run quintet init again";
    StoreError::new(StoreErrorKind::NoPool, why)
}

/// Returns true if the error means that there is nothing to open.
pub fn is_no_pool(e: &StoreError) -> bool {
    matches!(
        e.kind,
        StoreErrorKind::NoPool | StoreErrorKind::Media(MediaErrorKind::NotFound)
    )
}
