//! Large writes that pass the journal by: their chunks go straight into containers, and the journal
//! keeps only the fingerprints.
//!
//! Invariant: a record of chunks is appended after its chunks were stored; a flush is acknowledged
//! after the containers of all of them are durable; a round commits their containers before it
//! folds them. The lanes here share claims with nobody: what they deduplicate against is stored
//! when [`DirectLanes::settle`] returns. Called by live volumes, flushes and rounds.

mod lanes;

use super::engine::Engine;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::pool::Purpose;
use crate::write_path::{Lane, Probe, WriteSession};
use format::container::ContainerClass;
use lanes::Lanes;
use media::{Barrier, MediaErrorKind, Need};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
#[derive(Default)]
pub(super) struct DirectLanes {
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
}

impl DirectLanes {
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
    pub fn store(
        &self,
        engine: &Engine,
        chunk_bytes: usize,
        data: &[u8],
    ) -> Result<Option<Vec<Fingerprint>>> {
        if self.failed.get().is_some() {
            return Ok(None);
        }
        let Some(mut one) = self.lanes.one() else {
            return Ok(None);
        };
        let open = one.lane.as_ref().map_or(0, Lane::open_bytes);
        let open = open + data.len() as u64;
        // Looked for only when a container may be full with this write: it takes system calls.
        let may_put = open >= engine.backing.lane.container_bytes as u64 / 8 * 7;
        if may_put && !has_room(engine, open) {
            return Ok(None);
        }
        let lane = match &mut one.lane {
            Some(lane) => lane,
            none => {
                let mut lane = self.new_lane(engine)?;
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

    fn new_lane(&self, engine: &Engine) -> Result<Lane> {
        let mut session = self.session.lock();
        let session = match &mut *session {
            Some(session) => session,
            none => none.insert(
                engine
                    .backing
                    .pool
                    .begin_for(Purpose::Direct, engine.backing.lane)?,
            ),
        };
        session.lane(engine.backing.lane)
    }

    /// True when a chunk may be in no container that can be read.
    pub fn is_unsettled(&self) -> bool {
        // In this order: who settles says so before it takes the first back.
        self.unsettled.load(Ordering::SeqCst) || self.is_settling.load(Ordering::SeqCst)
    }

    /// Returns when every chunk that was stored before the call is durable.
    pub fn settle(&self, engine: &Engine) -> Result<()> {
        let _one = self.settling.lock();
        if !self.unsettled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Nothing is lost while it is in memory: a later flush may find room.
        expect_room(engine, &mut self.lanes.all().iter_mut())?;
        self.is_settling.store(true, Ordering::SeqCst);
        let settled = self.put_and_wait(engine);
        self.is_settling.store(false, Ordering::SeqCst);
        self.note(settled)
    }

    fn put_and_wait(&self, engine: &Engine) -> Result<()> {
        {
            let mut lanes = self.lanes.all();
            self.unsettled.store(false, Ordering::SeqCst);
            for lane in lanes.iter_mut() {
                lane.put_open(ContainerClass::Data)?;
            }
            self.open_bytes.store(0, Ordering::Relaxed);
        }
        let point = Barrier::ContainersBeforeJournal;
        engine.backing.pool.blobs_barrier(point)
    }

    /// Enters the containers into the pool's inventory, so that a root may reach them.
    pub fn commit(&self, engine: &Engine) -> Result<()> {
        let _one = self.settling.lock();
        let mut lanes = self.lanes.all();
        let mut session = self.session.lock();
        if session.is_none() && engine.backing.pool.has_adopted(Purpose::Direct) {
            *session = Some(
                engine
                    .backing
                    .pool
                    .begin_for(Purpose::Direct, engine.backing.lane)?,
            );
        }
        let Some(session) = session.as_mut() else {
            return Ok(());
        };
        if !self.unsettled.load(Ordering::Relaxed) && !session.has_finished() {
            return Ok(());
        }
        expect_room(engine, &mut lanes.iter_mut())?;
        let mut open: Vec<&mut Lane> = lanes.iter_mut().collect();
        let committed = engine.backing.pool.commit_with(Purpose::Direct, |base| {
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
}

/// True when so many bytes can be put, and the commit that names them.
fn has_room(engine: &Engine, bytes: u64) -> bool {
    let needed = bytes.saturating_add(bytes / 8).saturating_add(COMMIT_BYTES);
    let reserved = engine.backing.pool.reserved();
    reserved.is_none_or(|r| r.for_need(Need::Acknowledged) >= needed)
}

/// `NoSpace` when there is no room for what is open in the lanes, which stays as it is.
fn expect_room(engine: &Engine, lanes: &mut dyn Iterator<Item = &mut Lane>) -> Result<()> {
    match has_room(engine, lanes.map(|lane| lane.open_bytes()).sum()) {
        true => Ok(()),
        false => Err(StoreError::no_space(
            "the pool's disk has no room for a large write, which stays in memory",
        )),
    }
}
