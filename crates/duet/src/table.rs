//! The table. The page cache reports events to it from many threads; sessions register with it.
//!
//! Invariant: an event that no session wants costs one relaxed load. A shard is locked for one
//! page, one piece of a fetch, or one session that registers or ends. Never are two shards locked
//! at once, and no callback runs under the lock.

use crate::hash::hash;
use crate::page::{Events, Page, Space};
use crate::records::SESSIONS_MAX;
use crate::shard::Shard;
use crate::subscriber::Subscriber;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Shards of the table.
pub(crate) const SHARDS: usize = 64;

/// Maximum memory of a pending page, bytes (plus 4 KiB for each shard).
pub const ITEM_BYTES_MAX: u64 = 64;

/// Size and secret of a table.
#[derive(Clone, Copy, Debug)]
pub struct DuetOptions {
    /// Approximate maximum number of pages with undelivered events; each of the 64 shards has a
    /// 64th. A page takes [`ITEM_BYTES_MAX`].
    pub items_max: usize,
    /// A number that clients cannot guess, so that they cannot choose pages that collide.
    pub seed: u64,
}

/// All sessions are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{SESSIONS_MAX} sessions are registered already")]
pub struct TooManySessions;

type Sessions = [Option<Arc<Subscriber>>; SESSIONS_MAX];

/// See the module's head.
pub struct Duet {
    seed: u64,
    /// By space: the events that some session wants.
    wanted: [AtomicU8; Space::COUNT],
    shards: Vec<Mutex<Shard>>,
    sessions: Mutex<Sessions>,
}

impl Duet {
    /// Maximum number of sessions.
    pub const SESSIONS_MAX: usize = SESSIONS_MAX;

    /// Creates a table without sessions.
    pub fn new(options: DuetOptions) -> Arc<Self> {
        let records_max = options
            .items_max
            .div_ceil(SHARDS)
            .min(u32::MAX as usize / 2);
        let shard = |_| Mutex::new(Shard::new(options.seed, records_max));
        Arc::new(Self {
            seed: options.seed,
            wanted: Default::default(),
            shards: (0..SHARDS).map(shard).collect(),
            sessions: Mutex::default(),
        })
    }

    /// Creates a table to which nobody reports: for tasks without a page cache.
    pub fn silent() -> Arc<Self> {
        Self::new(DuetOptions {
            items_max: SHARDS,
            seed: 0,
        })
    }

    /// Records events of a page, at most one of each pair. Events of one page must come in the
    /// order in which they happened: the reporter holds a lock of that page.
    /// [`Present`](crate::Present) visits the page under the same lock.
    #[inline]
    pub fn record(&self, page: &Page, events: Events) {
        // Relaxed is enough. A session that this load does not see gets the page in the replay,
        // which takes the lock that the caller holds.
        let wanted = self.wanted.get(page.space as usize);
        if wanted.is_some_and(|w| w.load(Ordering::Relaxed) & events.0 != 0) {
            self.record_for_sessions(page, events);
        }
    }

    #[cold]
    fn record_for_sessions(&self, page: &Page, events: Events) {
        let hash = hash(self.seed, page);
        self.shard_of(hash).record(hash, page, events);
    }

    pub(crate) fn inject(&self, session: usize, page: &Page, events: Events) {
        let hash = hash(self.seed, page);
        self.shard_of(hash).inject(session, hash, page, events);
    }

    /// Registers the subscriber for events. Returns its number.
    pub(crate) fn enter(&self, subscriber: &Arc<Subscriber>) -> Result<usize, TooManySessions> {
        let mut sessions = self.sessions.lock();
        let mut slots = (0..).zip(sessions.iter_mut());
        let Some((number, slot)) = slots.find(|(_, slot)| slot.is_none()) else {
            return Err(TooManySessions);
        };
        *slot = Some(Arc::clone(subscriber));
        for shard in &self.shards {
            shard.lock().join(number, Arc::clone(subscriber));
        }
        self.want(&sessions);
        Ok(number)
    }

    pub(crate) fn deregister(&self, number: usize) {
        let mut sessions = self.sessions.lock();
        if let Some(slot) = sessions.get_mut(number) {
            *slot = None;
        }
        self.want(&sessions);
        for shard in &self.shards {
            shard.lock().leave(number);
        }
    }

    fn want(&self, sessions: &Sessions) {
        for (space, wanted) in (0..).zip(&self.wanted) {
            let of_space = sessions
                .iter()
                .flatten()
                .filter(|s| s.space as usize == space);
            let all = of_space.fold(0, |all, s| all | s.mask.wanted());
            wanted.store(all, Ordering::SeqCst);
        }
    }

    /// An object was deleted: all sessions of the space forget what they have seen and done of it.
    pub fn deleted(&self, space: Space, object: u64) {
        let sessions: Vec<_> = self.sessions.lock().iter().flatten().cloned().collect();
        for session in sessions.iter().filter(|s| s.space == space) {
            session.deleted(object);
        }
    }

    /// Number of pages with pending events.
    pub fn pending(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Memory of these pages, bytes: at most 64 for each, and 4 KiB a shard.
    pub fn memory_bytes(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|s| s.lock().memory_bytes()).sum()
    }

    fn shard_of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shard(hash as usize)
    }

    pub(crate) fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number % SHARDS].lock()
    }
}
