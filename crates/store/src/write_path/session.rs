//! A writer's session: hands lanes out, takes them back, commits once.

use super::lane::{Lane, LaneOptions};
use super::session_state::{Counters, Shared};
use crate::read_path::{Reader, node_error};
use chunk_store::catalog::{
    Edit, InventoryEntry, apply, inventory_key, read_set_aside, set_aside_edits,
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
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Fingerprint, Generation, WriterId};

/// More rounds than entering containers into the catalog ever takes.
const CATALOG_ROUNDS_MAX: usize = 16;

/// What a session has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// User bytes handed in.
    pub logical_bytes: u64,
    /// Bytes of chunks that the pool did not have, before compression.
    pub new_bytes: u64,
    /// Chunks that the pool did not have.
    pub chunks_new: u64,
    /// Chunks that it had.
    pub chunks_known: u64,
    /// Bytes of finished containers.
    pub stored_bytes: u64,
    /// Finished containers.
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

/// What a commit made.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its number.
    pub generation: Generation,
    /// What the session did.
    pub counts: WriteCounts,
    pub(crate) record: RootRecord,
}

/// Where a session starts: facts that recovery found.
pub(crate) struct Start {
    /// Told in the headers of its containers; commits of others may come first.
    pub generation: Generation,
    pub writer: WriterId,
    /// What it may take of the reserve.
    pub need: Need,
    /// Container numbers of this process; none is ever given twice.
    pub next_sequence: Arc<AtomicU64>,
    /// Of its containers.
    pub parity_percent: u8,
    /// Lives as long as anybody can write for this session.
    pub token: Arc<dyn Any + Send + Sync>,
    /// Containers found after a crash: they enter the inventory with this commit.
    pub adopted: Vec<InventoryEntry>,
}

/// What a commit is made on top of: the newest root of the moment.
pub struct Base {
    /// The commit's number.
    pub generation: Generation,
    /// The newest root.
    pub record: RootRecord,
}

/// One writer's session.
pub struct WriteSession {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    main: Lane,
    start: Start,
    /// Containers of this session that earlier commits of it entered.
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
        let shared = Arc::new(Shared {
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

    /// What the session may take of the reserve from now on.
    pub fn set_need(&self, need: Need) {
        *self.shared.need.lock() = need;
    }

    /// The session's own lane, for single-threaded work.
    pub fn main(&mut self) -> &mut Lane {
        &mut self.main
    }

    /// Another lane, for another thread.
    pub fn lane(&self, options: LaneOptions) -> Result<Lane> {
        Lane::new(Arc::clone(&self.shared), options)
    }

    /// Takes a lane back; what it has open goes on in the session's own.
    pub fn retire(&mut self, lane: Lane) -> Result<()> {
        lane.retire_into(&mut self.main)
    }

    /// What has been done so far.
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

    /// True when containers wait to be entered into the inventory.
    pub fn has_finished(&self) -> bool {
        !self.shared.finished.lock().is_empty()
    }

    /// Puts what is open without committing: the next session finds it. For interrupted runs.
    pub fn abandon(mut self) -> Result<()> {
        self.main.close(ContainerClass::Data)?;
        self.main.close(ContainerClass::Recipe)
    }

    /// Closes the data containers and tells the stored bytes that the session added so far, so
    /// that a snapshot's record can say it.
    pub fn seal_data(&mut self) -> Result<WriteCounts> {
        self.main.close(ContainerClass::Data)?;
        Ok(self.counts())
    }

    /// Applies `edits` to the catalog and commits. Returns when all of it survives power loss.
    /// `entries_change` is what the edits do to the number of snapshots.
    pub(crate) fn commit(
        mut self,
        base: Base,
        edits: Vec<Edit>,
        entries_change: i64,
    ) -> Result<Committed> {
        // The session's own reference and its own lane's.
        if Arc::strong_count(&self.shared) > 2 {
            return Err(not_taken_back());
        }
        self.commit_more(base, edits, entries_change, &mut [])
    }

    /// The same, and the session goes on. `lanes` are all the lanes that are out: what they have
    /// open is stored with this commit.
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
        let Shared {
            media,
            config,
            master,
            ..
        } = &*self.shared;
        // Covers the containers of other sessions too: this one may have met chunks in them.
        media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        commit_root(media, config.pool, master, config.seal, generation, &record)?;
        // The commit stands. An index that could not be written costs the next open some reads.
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

    /// What a commit has to say of damage: what this process met, and what it verified. Notes that
    /// cannot be read are left as they are: they must not stop a backup.
    fn damage_edits(&self, catalog: Option<Fingerprint>) -> Result<Vec<Edit>> {
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        match read_set_aside(catalog, &mut load) {
            Ok(noted) => {
                let wanted = self.shared.chunks.quarantine.places();
                Ok(set_aside_edits(&noted, &wanted))
            }
            Err(e) if e.is_corruption() => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Writes the catalog's new nodes. The container that holds them is entered into the
    /// inventory before it is full, with length 0.
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
        // Storing nodes may fill and close containers, which are then to be entered too; that stores
        // the few nodes on the way to their entries, for which the open container has room.
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
        let why = "the catalog does not settle";
        Err(StoreError::new(StoreErrorKind::Invalid, why))
    }
}

/// Catalog nodes of this commit are read back from memory, older ones from the pool.
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
    let why = "a lane of the session was not taken back, or a container of it could not be stored";
    StoreError::new(StoreErrorKind::Invalid, why)
}
