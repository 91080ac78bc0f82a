//! A writer's session: creates lanes, takes them back, commits. The pool opens it for backups,
//! volumes, garbage collection and replication.
//!
//! ```text
//! lanes closed -> catalog edits -> catalog's containers -> barrier -> root -> barrier -> index
//! ```
//!
//! Invariant: a commit's root is put only after a barrier covers every container that it can refer
//! to.

use super::lane::{Lane, LaneOptions};
use super::session_state::{Counters, SessionState};
use chunk_store::catalog::{
    Edit, InventoryEntry, apply, inventory_key, quarantine_edits, read_quarantine,
};
use chunk_store::chunk_map::ChunkMap;
use chunk_store::superblock::{MasterKey, commit_root};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::Config;
use format::container::ContainerClass;
use format::map_node::MapNode;
use format::root::RootRecord;
use media::{Barrier, Media, Need};
use parking_lot::Mutex;
use read_path::{Reader, node_error};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Fingerprint, Generation, WriterId};

/// Number of attempts after which entering containers into the catalog counts as failed. It needs
/// far fewer.
const CATALOG_ROUNDS_MAX: usize = 16;

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// User bytes that were written.
    pub logical_bytes: u64,
    /// Bytes of chunks that the pool did not have, before compression.
    pub new_bytes: u64,
    /// Number of chunks that the pool did not have.
    pub chunks_new: u64,
    /// Number of chunks that the pool had.
    pub chunks_known: u64,
    /// Size of the finished containers, bytes.
    pub stored_bytes: u64,
    /// Number of finished containers.
    pub containers: u64,
}

impl WriteCounts {
    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            logical_bytes: of(self.logical_bytes, other.logical_bytes),
            new_bytes: of(self.new_bytes, other.new_bytes),
            chunks_new: of(self.chunks_new, other.chunks_new),
            chunks_known: of(self.chunks_known, other.chunks_known),
            stored_bytes: of(self.stored_bytes, other.stored_bytes),
            containers: of(self.containers, other.containers),
        }
    }
}

impl AddAssign for WriteCounts {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, |a, b| a + b);
    }
}

impl Sub for WriteCounts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.with(before, |a, b| a - b)
    }
}

/// Result of a commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its generation.
    pub generation: Generation,
    /// Counters of the session.
    pub counts: WriteCounts,
    pub(crate) record: RootRecord,
}

/// Facts with which a session begins.
pub(crate) struct Start {
    /// Generation in the headers of its containers. Other sessions may commit before it does.
    pub generation: Generation,
    pub writer: WriterId,
    /// Part of the reserve that it may use.
    pub need: Need,
    /// Next container number of this process. No number is used twice.
    pub next_sequence: Arc<AtomicU64>,
    /// Parity of its containers, percent.
    pub parity_percent: u8,
    /// Lives as long as any lane of this session can write.
    pub token: Arc<dyn Any + Send + Sync>,
    /// Containers that a crashed writer left. This session's first commit adds them to the
    /// inventory.
    pub adopted: Vec<InventoryEntry>,
}

/// Base of a commit: the newest root at that moment.
pub struct Base {
    /// Generation of the new commit.
    pub generation: Generation,
    /// The newest root.
    pub record: RootRecord,
}

/// One writer's session.
pub struct WriteSession {
    shared: Arc<SessionState>,
    reader: Arc<Reader>,
    main: Lane,
    start: Start,
    /// Number of this session's containers that its earlier commits entered.
    entered: u64,
}

impl WriteSession {
    pub(crate) fn new(
        media: Media,
        config: Config,
        master: MasterKey,
        chunks: Arc<ChunkMap>,
        reader: Arc<Reader>,
        start: Start,
        options: LaneOptions,
    ) -> Result<Self> {
        let shared = Arc::new(SessionState {
            media,
            claims: chunks.claims(),
            chunks,
            fingerprints: master.fingerprint_key(),
            counts: Counters::default(),
            config,
            master,
            writer: start.writer,
            generation: start.generation,
            next_sequence: Arc::clone(&start.next_sequence),
            need: Mutex::new(start.need),
            parity_percent: start.parity_percent,
            finished: Mutex::new(start.adopted.clone()),
            lost_chunks: AtomicBool::new(false),
            _token: Arc::clone(&start.token) as _,
        });
        let main = Lane::new(Arc::clone(&shared), options)?;
        Ok(Self {
            shared,
            reader,
            main,
            start,
            entered: 0,
        })
    }

    /// Sets how much of the reserve the session may use from now on.
    pub fn set_need(&self, need: Need) {
        *self.shared.need.lock() = need;
    }

    /// Returns the session's own lane, for single-threaded work.
    pub fn main(&mut self) -> &mut Lane {
        &mut self.main
    }

    /// Creates another lane, for another thread.
    pub fn lane(&self, options: LaneOptions) -> Result<Lane> {
        Lane::new(Arc::clone(&self.shared), options)
    }

    /// Takes a lane back. Its open contents move to the session's own lane.
    pub fn retire(&mut self, lane: Lane) -> Result<()> {
        lane.retire_into(&mut self.main)
    }

    /// Returns the counters.
    pub fn counts(&self) -> WriteCounts {
        let counts = &self.shared.counts;
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        WriteCounts {
            logical_bytes: read(&counts.logical_bytes),
            new_bytes: read(&counts.new_bytes),
            chunks_new: read(&counts.chunks_new),
            chunks_known: read(&counts.chunks_known),
            stored_bytes: read(&counts.stored_bytes),
            containers: self.entered
                + (self.shared.finished.lock().len() - self.start.adopted.len()) as u64,
        }
    }

    /// Returns true if finished containers are not in the inventory yet.
    pub fn has_finished(&self) -> bool {
        !self.shared.finished.lock().is_empty()
    }

    /// Puts the open containers without committing, for interrupted runs. The next session adopts
    /// them.
    pub fn abandon(mut self) -> Result<()> {
        self.main.close(ContainerClass::Data)?;
        self.main.close(ContainerClass::Recipe)
    }

    /// Closes the data containers and returns the counters, so that a snapshot's record can include
    /// the stored bytes.
    pub fn seal_data(&mut self) -> Result<WriteCounts> {
        self.main.close(ContainerClass::Data)?;
        Ok(self.counts())
    }

    /// Applies `edits` to the catalog and commits. Returns when everything is durable.
    /// `entries_change` is the change of the number of snapshots.
    pub(crate) fn commit(
        mut self,
        base: Base,
        edits: Vec<Edit>,
        entries_change: i64,
    ) -> Result<Committed> {
        // The references of the session and of its own lane.
        if Arc::strong_count(&self.shared) > 2 {
            return Err(not_taken_back());
        }
        self.commit_more(base, edits, entries_change, &mut [])
    }

    /// Like `commit`, and the session continues. `lanes` must be all lanes in use: their open
    /// contents are stored with this commit.
    pub fn commit_more(
        &mut self,
        base: Base,
        mut edits: Vec<Edit>,
        entries_change: i64,
        lanes: &mut [&mut Lane],
    ) -> Result<Committed> {
        if self.shared.lost_chunks.load(Ordering::Relaxed) {
            return Err(not_taken_back());
        }
        for lane in lanes {
            lane.close(ContainerClass::Data)?;
            lane.close(ContainerClass::Recipe)?;
        }
        self.main.close(ContainerClass::Data)?;
        let Base {
            generation,
            mut record,
        } = base;
        edits.extend(self.damage_edits(record.catalog)?);
        record.catalog = self.write_catalog(record.catalog, edits)?;
        record.committed = self.shared.media.clock.now();
        record.catalog_entries = record.catalog_entries.saturating_add_signed(entries_change);
        self.main.close(ContainerClass::Recipe)?;
        let finished = self.shared.finished.lock().clone();
        record.containers += finished.len() as u64;
        record.stored_bytes += finished.iter().map(|c| c.blob_bytes).sum::<u64>();
        let next_sequence = self.shared.next_sequence.load(Ordering::Relaxed);
        record
            .next_sequence
            .insert(self.start.writer, next_sequence);
        let SessionState {
            media,
            config,
            master,
            ..
        } = &*self.shared;
        // This covers containers of other sessions too: this one may have deduplicated against
        // them.
        media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        commit_root(media, config.pool, master, config.seal, generation, &record)?;
        // The commit is durable. An index that could not be written costs the next open some reads.
        let _ = self.shared.chunks.index.commit(&record.next_sequence);
        let counts = self.counts();
        self.shared.finished.lock().drain(..finished.len());
        self.entered = counts.containers;
        self.start.adopted.clear();
        Ok(Committed {
            generation,
            counts,
            record,
        })
    }

    /// Returns the edits that update the quarantine: damage that this process found, and places
    /// that it verified. An unreadable record stays as it is: it must not prevent a backup.
    fn damage_edits(&self, catalog: Option<Fingerprint>) -> Result<Vec<Edit>> {
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        match read_quarantine(catalog, &mut load) {
            Ok(noted) => {
                let wanted = self.shared.chunks.quarantine.places();
                Ok(quarantine_edits(&noted, &wanted))
            }
            Err(e) if e.is_corruption() => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Writes the catalog's new nodes. The container that holds them is entered into the inventory
    /// with length 0, because it is still open.
    fn write_catalog(
        &mut self,
        root: Option<Fingerprint>,
        edits: Vec<Edit>,
    ) -> Result<Option<Fingerprint>> {
        let mut edits: BTreeMap<_, _> = edits.into_iter().map(|e| (e.key, e.value)).collect();
        for entry in self.shared.finished.lock().iter() {
            edits.insert(inventory_key(entry.id), Some(entry.encode()));
        }
        let mut nodes = CatalogNodes {
            reader: &self.reader,
            lane: &mut self.main,
            stored: HashMap::new(),
        };
        // Storing nodes may close containers, which must be entered too. That stores the few nodes
        // above their entries, and the open container has space for those.
        for _ in 0..CATALOG_ROUNDS_MAX {
            let open = nodes.lane.open_container(ContainerClass::Recipe);
            let class = ContainerClass::Recipe;
            let entry = InventoryEntry {
                id: open,
                class,
                blob_bytes: 0,
            };
            edits.insert(inventory_key(open), Some(entry.encode()));
            let list: Vec<_> = edits
                .iter()
                .map(|(key, value)| Edit {
                    key: key.clone(),
                    value: value.clone(),
                })
                .collect();
            let new_root = apply(root, &list, &mut nodes)?;
            nodes.lane.flush_nodes()?;
            if nodes.lane.open_container(ContainerClass::Recipe) == open {
                return Ok(new_root);
            }
            for entry in self.shared.finished.lock().iter() {
                edits.insert(inventory_key(entry.id), Some(entry.encode()));
            }
        }
        let why = "the catalog does not reach a stable size";
        Err(StoreError::new(StoreErrorKind::Invalid, why))
    }
}

/// Reads catalog nodes of this commit from memory, older ones from the pool.
struct CatalogNodes<'a> {
    reader: &'a Reader,
    lane: &'a mut Lane,
    stored: HashMap<Fingerprint, Vec<u8>>,
}

impl chunk_store::catalog::Nodes for CatalogNodes<'_> {
    fn load(&mut self, fingerprint: &Fingerprint) -> Result<MapNode> {
        match self.stored.get(fingerprint) {
            Some(bytes) => MapNode::decode(bytes).map_err(|e| node_error(fingerprint, e)),
            None => self.reader.map_node(fingerprint),
        }
    }

    fn store(&mut self, bytes: &[u8]) -> Result<Fingerprint> {
        let fingerprint = self.lane.store_node(bytes)?;
        self.stored.insert(fingerprint, bytes.to_vec());
        Ok(fingerprint)
    }
}

fn not_taken_back() -> StoreError {
    let why = "a lane of the session is still in use, or a container of it could not be stored";
    StoreError::new(StoreErrorKind::Invalid, why)
}
