//! Direct writes: chunks of large writes go straight into containers. The journal gets their
//! fingerprints only.
//!
//! ```text
//! store ─> a lane ─> open container ─ full ─> put
//! flush ─> settle: put all open containers, barrier
//! checkpoint ─> commit: list the containers in the pool, then apply
//! ```
//!
//! The write path, reads, flushes and checkpoints call this.
//! Invariant: a record of chunks is appended after its chunks were stored. A flush is acknowledged
//! after all their containers are durable. A checkpoint commits the containers before it applies
//! the records. These lanes share unfinished chunks with no other session: their duplicates are
//! stored when [`DirectLanes::settle`] returns.

mod lanes;

use super::backing::Backing;
use format::container::ContainerClass;
use lanes::{LANES, Lanes};
use media::{Barrier, MediaErrorKind, Need};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use store::Purpose;
use store::{Lane, Probe, WriteSession};
use store::{Result, StoreError, StoreErrorKind};
use units::Fingerprint;

/// Estimated size of a commit's catalog nodes.
const COMMIT_BYTES: u64 = 64 << 10;

/// Which writes bypass the journal.
#[derive(Clone, Copy, Debug)]
pub struct DirectLimits {
    /// Minimum size of a write (DDFS, ATC'18: 128 KiB), bytes.
    pub bytes_min: u64,
    /// Minimum number of bytes written since a flush. With fewer, a container for each flush would
    /// cost more syncs than the journal.
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

/// Returns the space that `bytes` in open containers need, and the commit that lists these.
fn put_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8).saturating_add(COMMIT_BYTES)
}

/// State of direct writes. See the module's head.
pub(super) struct DirectLanes {
    backing: Arc<Backing>,
    limits: DirectLimits,
    lanes: Lanes,
    session: Mutex<Option<WriteSession>>,
    /// Some stored chunks may not be durable.
    unsettled: AtomicBool,
    /// Held while settling. Other callers wait: they may not answer before it is done.
    settling: Mutex<()>,
    /// A thread is settling.
    is_settling: AtomicBool,
    /// Set after a failure that may have lost chunks that records name. Flushes fail with it from
    /// then on.
    failed: OnceLock<MediaErrorKind>,
    bytes: AtomicU64,
    /// Upper bound of the bytes in open containers: stored since all lanes were put.
    open_bytes: AtomicU64,
    /// Bytes written since the last flush, also through the journal.
    unflushed_bytes: AtomicU64,
    /// Held by a writer from looking up duplicates until the overlay names them.
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

    /// Returns the minimum size of a direct write.
    pub fn bytes_min(&self) -> u64 {
        self.limits.bytes_min
    }

    /// Counts a write. Returns true if enough was written since the last flush for direct writes.
    pub fn is_streaming(&self, bytes: u64) -> bool {
        let before = self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        before >= self.limits.unflushed_bytes_min
    }

    /// Held while stored or found chunks are in no overlay yet.
    pub fn choosing(&self) -> RwLockReadGuard<'_, ()> {
        self.choosing.read()
    }

    /// Waits for all holders of [`DirectLanes::choosing`].
    pub fn choosing_alone(&self) -> impl Drop + '_ {
        self.choosing.write()
    }

    /// Called by a flush: every chunk that was stored before the call is durable on return. `need`
    /// is as in [`DirectLanes::settle_for`].
    pub fn flush(&self, need: Need) -> Result<()> {
        self.unflushed_bytes.store(0, Ordering::Relaxed);
        self.settle_for(need)
    }

    /// Returns true if stores or flushes fail for good.
    pub fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Returns an upper bound of the bytes that are in no durable container.
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes.load(Ordering::Relaxed)
    }

    /// Returns about how much space the open containers need when they are put, at most.
    pub fn put_bytes(&self) -> u64 {
        let lane = self.backing.lane;
        let full = (LANES * (lane.container_bytes + lane.region_bytes)) as u64;
        match self.open_bytes().min(full) {
            0 => 0,
            // A container has a directory too.
            open => put_bytes(open.saturating_add(open / 16)),
        }
    }

    /// Returns the number of bytes that were stored this way.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Stores whole chunks of `chunk_bytes`. Returns `None` while another thread settles or
    /// commits, since the journal is faster than a sync, and if space is short or an earlier store
    /// failed.
    pub fn store(&self, chunk_bytes: usize, data: &[u8]) -> Result<Option<Vec<Fingerprint>>> {
        if self.has_failed() {
            return Ok(None);
        }
        let Some(mut one) = self.lanes.one() else {
            return Ok(None);
        };
        let open = one.lane.as_ref().map_or(0, Lane::open_bytes);
        let open = open + data.len() as u64;
        // Checked only if this write may fill a container: the check takes system calls.
        let may_put = open >= self.backing.lane.container_bytes as u64 / 8 * 7;
        if may_put && !self.has_room(open, Need::Acknowledged) {
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
        // Set while the lane is in use, so that the next settle covers this store.
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

    /// Returns true if a chunk may be in no readable container.
    pub fn is_unsettled(&self) -> bool {
        // The order matters: a settling thread sets the second before it clears the first.
        self.unsettled.load(Ordering::SeqCst) || self.is_settling.load(Ordering::SeqCst)
    }

    /// Returns when every chunk that was stored before the call is durable.
    pub fn settle(&self) -> Result<()> {
        self.settle_for(Need::Acknowledged)
    }

    /// The same; the open containers may take the part of the reserve that `need` allows.
    pub fn settle_for(&self, need: Need) -> Result<()> {
        let _one = self.settling.lock();
        if !self.unsettled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Fails before it changes anything: chunks in memory are not lost, and a later flush may
        // find space.
        self.expect_room(&mut self.lanes.all().iter_mut(), need)?;
        self.is_settling.store(true, Ordering::SeqCst);
        let settled = self.put_and_wait(need);
        self.is_settling.store(false, Ordering::SeqCst);
        self.note(settled)
    }

    fn put_and_wait(&self, need: Need) -> Result<()> {
        {
            let mut lanes = self.lanes.all();
            self.unsettled.store(false, Ordering::SeqCst);
            self.set_need(need);
            let mut open = lanes.iter_mut();
            let put = open.try_for_each(|lane| lane.put_open(ContainerClass::Data));
            self.set_need(Need::Acknowledged);
            put?;
            self.open_bytes.store(0, Ordering::Relaxed);
        }
        let point = Barrier::ContainersBeforeJournal;
        Ok(self.backing.pool.media().blobs.barrier(point)?)
    }

    fn set_need(&self, need: Need) {
        if let Some(session) = &*self.session.lock() {
            session.set_need(need);
        }
    }

    /// Lists the containers in the pool, so that a root may refer to them.
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
        self.expect_room(&mut lanes.iter_mut(), Need::Acknowledged)?;
        let mut open: Vec<&mut Lane> = lanes.iter_mut().collect();
        let committed = self.backing.pool.commit_with(Purpose::Direct, |base| {
            session.commit_more(base, Vec::new(), 0, &mut open)
        });
        self.note(committed)?;
        self.unsettled.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn fail(&self, e: &StoreError) {
        // Several requests may fail. Keep the first kind: a client may report any of them.
        self.failed.get_or_init(|| match e.is_full() {
            true => MediaErrorKind::NoSpace,
            false => MediaErrorKind::Poisoned,
        });
    }

    /// After a failure every flush fails: chunks of acknowledged writes may be lost.
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(e) = &result {
            self.fail(e);
            self.unsettled.store(true, Ordering::Relaxed);
        }
        if let Some(kind) = self.failed.get() {
            return result.and(Err(StoreError::new(
                StoreErrorKind::Media(*kind),
                "a large write failed, and how much of it is stored is unknown: restart the server",
            )));
        }
        result
    }

    /// Returns true if there is space for `bytes` in containers and the commit that lists them.
    fn has_room(&self, bytes: u64, need: Need) -> bool {
        let reserved = self.backing.pool.reserved();
        reserved.is_none_or(|r| r.for_need(need) >= put_bytes(bytes))
    }

    /// Fails with `NoSpace` if there is no space for the open containers, which stay in memory.
    fn expect_room(&self, lanes: &mut dyn Iterator<Item = &mut Lane>, need: Need) -> Result<()> {
        match self.has_room(lanes.map(|lane| lane.open_bytes()).sum(), need) {
            true => Ok(()),
            false => Err(StoreError::no_space(
                "the pool's disk has no space for a large write, which stays in memory",
            )),
        }
    }
}
