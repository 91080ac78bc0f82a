//! Large writes that pass the journal by: their chunks go straight into containers, and the journal
//! keeps only the fingerprints.
//!
//! Invariant: a record of chunks is appended after its chunks were stored; a flush is acknowledged
//! after the containers of all of them are durable; a round commits their containers before it
//! folds them. The lanes here share claims with nobody: what they deduplicate against is stored
//! when [`DirectLanes::settle`] returns. Called by who reads and writes volumes, flushes and rounds.

mod lanes;

use super::backing::Backing;
use format::container::ContainerClass;
use lanes::Lanes;
use media::{Barrier, MediaErrorKind, Need};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use store::Purpose;
use store::{Lane, Probe, WriteSession};
use store::{Result, StoreError, StoreErrorKind};
use units::Fingerprint;

/// Nodes of a commit's catalog, about.
const COMMIT_BYTES: u64 = 64 << 10;

/// Which writes pass the journal by.
#[derive(Clone, Copy, Debug)]
pub struct DirectLimits {
    /// Shorter ones do not (DDFS, ATC'18: 128 KiB).
    pub bytes_min: u64,
    /// None does before so many bytes were written since a flush: a container for each flush costs
    /// more syncs than the journal.
    pub unflushed_bytes_min: u64,
}

impl Default for DirectLimits {
    fn default() -> Self {
        Self {
            bytes_min: 128 << 10,
            unflushed_bytes_min: 8 << 20,
        }
    }
}

/// See the module's head.
pub(super) struct DirectLanes {
    backing: Arc<Backing>,
    limits: DirectLimits,
    lanes: Lanes,
    session: Mutex<Option<WriteSession>>,
    /// Chunks were stored that may not be durable.
    unsettled: AtomicBool,
    /// Held by who settles: others wait, they may not answer before it is done.
    settling: Mutex<()>,
    /// Somebody settles right now.
    is_settling: AtomicBool,
    /// Something failed, and chunks that records name may be lost: what flushes fail with since.
    failed: OnceLock<MediaErrorKind>,
    bytes: AtomicU64,
    /// Stored since all lanes were written out last: more than what is open in them.
    open_bytes: AtomicU64,
    /// Written in any way since the last flush.
    unflushed_bytes: AtomicU64,
    /// Held by who deduplicates and has not told the overlay yet.
    choosing: RwLock<()>,
}

impl DirectLanes {
    pub fn new(backing: Arc<Backing>, limits: DirectLimits) -> Self {
        Self {
            backing,
            limits,
            lanes: Lanes::default(),
            session: Mutex::default(),
            unsettled: AtomicBool::new(false),
            settling: Mutex::default(),
            is_settling: AtomicBool::new(false),
            failed: OnceLock::new(),
            bytes: AtomicU64::new(0),
            open_bytes: AtomicU64::new(0),
            unflushed_bytes: AtomicU64::new(0),
            choosing: RwLock::default(),
        }
    }

    /// Shorter writes do not pass the journal by.
    pub fn bytes_min(&self) -> u64 {
        self.limits.bytes_min
    }

    /// Counts a write. True when so much was written since the last flush that large ones may pass
    /// the journal by.
    pub fn is_streaming(&self, bytes: u64) -> bool {
        let before = self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        before >= self.limits.unflushed_bytes_min
    }

    /// Held while chunks that are stored or found have no name in an overlay yet.
    pub fn choosing(&self) -> RwLockReadGuard<'_, ()> {
        self.choosing.read()
    }

    /// Waits for all who hold [`DirectLanes::choosing`].
    pub fn choosing_alone(&self) -> impl Drop + '_ {
        self.choosing.write()
    }

    /// For a flush: every chunk that was stored before the call is durable when this returns.
    pub fn flush(&self) -> Result<()> {
        self.unflushed_bytes.store(0, Ordering::Relaxed);
        self.settle()
    }

    /// At most so many bytes are stored and in no container that was put.
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were stored this way.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Stores whole chunks of `chunk_bytes`. `None` when somebody settles or
    /// commits what was stored: the journal is faster than a sync.
    pub fn store(&self, chunk_bytes: usize, data: &[u8]) -> Result<Option<Vec<Fingerprint>>> {
        if self.failed.get().is_some() {
            return Ok(None);
        }
        let Some(mut one) = self.lanes.one() else {
            return Ok(None);
        };
        let open = one.lane.as_ref().map_or(0, Lane::open_bytes);
        let open = open + data.len() as u64;
        // Looked for only when a container may be full with this write: it takes system calls.
        let may_put = open >= self.backing.lane.container_bytes as u64 / 8 * 7;
        if may_put && !self.has_room(open) {
            return Ok(None);
        }
        let lane = match &mut one.lane {
            Some(lane) => lane,
            none => {
                let mut lane = self.new_lane()?;
                lane.set_probe(Probe::Index);
                none.insert(lane)
            }
        };
        // While the lane is in use: who settles next finds what is stored now.
        self.unsettled.store(true, Ordering::Relaxed);
        let chunks: Vec<_> = data.chunks_exact(chunk_bytes).collect();
        let fingerprints = lane.store_chunks(&chunks);
        if let Err(e) = &fingerprints {
            self.fail(e);
        }
        let len = data.len() as u64;
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.open_bytes.fetch_add(len, Ordering::Relaxed);
        fingerprints.map(Some)
    }

    fn new_lane(&self) -> Result<Lane> {
        let mut session = self.session.lock();
        let session = match &mut *session {
            Some(session) => session,
            none => none.insert(
                self.backing
                    .pool
                    .begin_for(Purpose::Direct, self.backing.lane)?,
            ),
        };
        session.lane(self.backing.lane)
    }

    /// True when a chunk may be in no container that can be read.
    pub fn is_unsettled(&self) -> bool {
        // In this order: who settles says so before it takes the first back.
        self.unsettled.load(Ordering::SeqCst) || self.is_settling.load(Ordering::SeqCst)
    }

    /// Returns when every chunk that was stored before the call is durable.
    pub fn settle(&self) -> Result<()> {
        let _one = self.settling.lock();
        if !self.unsettled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Nothing is lost while it is in memory: a later flush may find room.
        self.expect_room(&mut self.lanes.all().iter_mut())?;
        self.is_settling.store(true, Ordering::SeqCst);
        let settled = self.put_and_wait();
        self.is_settling.store(false, Ordering::SeqCst);
        self.note(settled)
    }

    fn put_and_wait(&self) -> Result<()> {
        {
            let mut lanes = self.lanes.all();
            self.unsettled.store(false, Ordering::SeqCst);
            for lane in lanes.iter_mut() {
                lane.put_open(ContainerClass::Data)?;
            }
            self.open_bytes.store(0, Ordering::Relaxed);
        }
        let point = Barrier::ContainersBeforeJournal;
        Ok(self.backing.pool.media().blobs.barrier(point)?)
    }

    /// Enters the containers into the pool's inventory, so that a root may reach them.
    pub fn commit(&self) -> Result<()> {
        let _one = self.settling.lock();
        let mut lanes = self.lanes.all();
        let mut session = self.session.lock();
        if session.is_none() && self.backing.pool.has_adopted(Purpose::Direct) {
            *session = Some(
                self.backing
                    .pool
                    .begin_for(Purpose::Direct, self.backing.lane)?,
            );
        }
        let Some(session) = session.as_mut() else {
            return Ok(());
        };
        if !self.unsettled.load(Ordering::Relaxed) && !session.has_finished() {
            return Ok(());
        }
        self.expect_room(&mut lanes.iter_mut())?;
        let mut open: Vec<&mut Lane> = lanes.iter_mut().collect();
        let committed = self.backing.pool.commit_with(Purpose::Direct, |base| {
            session.commit_more(base, Vec::new(), 0, &mut open)
        });
        self.note(committed)?;
        self.unsettled.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&self, e: &StoreError) {
        // Of several requests under way, any may be the one that a client tells of.
        self.failed.get_or_init(|| match e.is_full() {
            true => MediaErrorKind::NoSpace,
            false => MediaErrorKind::Poisoned,
        });
    }

    /// After a failure flushes fail too: what they would answer for may be lost.
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(e) = &result {
            self.fail(e);
            self.unsettled.store(true, Ordering::Relaxed);
        }
        if let Some(kind) = self.failed.get() {
            return result.and(Err(StoreError::new(
                StoreErrorKind::Media(*kind),
                "a large write could not be stored; what of it is there is unknown until the pool is opened again",
            )));
        }
        result
    }

    /// True when so many bytes can be put, and the commit that names them.
    fn has_room(&self, bytes: u64) -> bool {
        let needed = bytes.saturating_add(bytes / 8).saturating_add(COMMIT_BYTES);
        let reserved = self.backing.pool.reserved();
        reserved.is_none_or(|r| r.for_need(Need::Acknowledged) >= needed)
    }

    /// `NoSpace` when there is no room for what is open in the lanes, which stays as it is.
    fn expect_room(&self, lanes: &mut dyn Iterator<Item = &mut Lane>) -> Result<()> {
        match self.has_room(lanes.map(|lane| lane.open_bytes()).sum()) {
            true => Ok(()),
            false => Err(StoreError::no_space(
                "the pool's disk has no room for a large write, which stays in memory",
            )),
        }
    }
}
