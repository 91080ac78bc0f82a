//! Implements the clean side: chunks by place and by content. `cache` calls this.
//!
//! Invariant: a place names at most one frame. All changes of one place happen under the lock of
//! its shard. A content shard may be locked under that lock, never the other way round, and never
//! two of one kind. The policy's lock comes before content shards. No lock is held across I/O.

mod counting;
mod leaving;
mod visiting;

use crate::content::{ContentShard, Identity, SHARDS_MAX, SHARDS_MIN, SLOT_BITS};
use crate::events::PageEvents;
use crate::extent::Run;
use crate::memory::{Frame, Memory};
use crate::policy::{EvictionPolicy, FrameId, Heat};
use crate::table::HashTable;
use crate::{Place, Purpose, Shard, Use, hash_pair};
use classes::ClassOccupancy;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Fingerprint;

/// Bits in numbers of aliases and frames: content shard, then slot.
const GLOBAL_BITS: u32 = SLOT_BITS + SHARDS_MAX.ilog2();
/// Memory for each content shard. There are a quarter as many shards of places.
const SHARD_BYTES: u64 = 2 << 20;
/// Memory of an alias, bytes: itself and its word in the table.
const ALIAS_BYTES: u64 = 41;

/// Ticks in the time in which all of the memory is inserted once.
const TICKS: u64 = 64;

type Places = HashTable<GLOBAL_BITS>;

fn global(shard: usize, slot: u32) -> u32 {
    (shard as u32) << SLOT_BITS | slot
}

fn local(id: u32) -> (usize, u32) {
    ((id >> SLOT_BITS) as usize, id & ((1 << SLOT_BITS) - 1))
}

/// Chunks equal to stored ones.
pub(crate) struct CleanPages {
    seed: u64,
    places: Vec<Shard<Places>>,
    contents: Vec<Shard<ContentShard>>,
    policy: Mutex<Box<dyn EvictionPolicy>>,
    /// Maximum number of places beyond one for each frame.
    aliases_max: u64,
    aliases: AtomicU64,
    inserted_bytes: AtomicU64,
    tick_bytes: u64,
    classes: Arc<ClassOccupancy>,
    memory: Arc<Memory>,
    events: Arc<dyn PageEvents>,
}

impl CleanPages {
    pub fn new(
        (seed, bytes_max): (u64, u64),
        policy: Box<dyn EvictionPolicy>,
        classes: Arc<ClassOccupancy>,
        memory: Arc<Memory>,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        // An eighth of the memory gives twelve places for each chunk of 4 KiB.
        let aliases_max = bytes_max / 8 / ALIAS_BYTES;
        // Reserve address space, with a quarter more because shards are not equal.
        let room = |entries: u64, shards: usize| entries as usize / shards * 5 / 4 + 64;
        let frames = bytes_max / crate::PAGE_BYTES as u64;
        let shards = (bytes_max / SHARD_BYTES).next_power_of_two() as usize;
        let shards = shards.clamp(SHARDS_MIN, SHARDS_MAX);
        let place_shards = shards / 4;
        let aliases = aliases_max + frames;
        let content = || ContentShard::new(room(frames, shards), room(aliases, shards));
        let places = || Places::with_room(room(aliases, place_shards));
        let pages = Self {
            seed,
            places: (0..place_shards).map(|_| Shard::new(places())).collect(),
            contents: (0..shards).map(|_| Shard::new(content())).collect(),
            policy: Mutex::new(policy),
            aliases_max,
            aliases: AtomicU64::new(0),
            inserted_bytes: AtomicU64::new(0),
            tick_bytes: (bytes_max / TICKS).max(1),
            classes,
            memory,
            events,
        };
        let fixed = size_of_val(pages.places.as_slice()) + size_of_val(pages.contents.as_slice());
        let policy = pages.policy.lock().memory_bytes();
        pages.memory.adjust(0, fixed + policy);
        pages
    }

    fn places(&self, hash: u64) -> MutexGuard<'_, Places> {
        // The shard uses low bits because the table uses the top bits first.
        self.places[hash as usize % self.places.len()].lock()
    }

    fn content(&self, shard: usize) -> MutexGuard<'_, ContentShard> {
        self.contents[shard % self.contents.len()].lock()
    }

    /// Runs a function on a place's alias (a slot of the shard) and its frame (a number).
    fn with_alias<R>(
        &self,
        places: &Places,
        (hash, place): (u64, Place),
        act: impl FnOnce(&mut ContentShard, u32, u32) -> R,
    ) -> Option<(u32, R)> {
        for id in places.candidates(hash) {
            let (shard, alias) = local(id);
            let mut content = self.content(shard);
            if let Some(frame) = content.frame_of(alias, place) {
                return Some((id, act(&mut content, alias, global(shard, frame))));
            }
        }
        None
    }

    fn hash(&self, place: Place) -> u64 {
        hash_pair(self.seed, place.object, place.chunk)
    }

    pub fn by_place(&self, place: Place, purpose: Purpose) -> Option<Frame> {
        let (hash, tick) = (self.hash(place), self.tick());
        let places = self.places(hash);
        let hit = |content: &mut ContentShard, _, frame| {
            content.counters.hits_by_place += 1;
            if let Some(tally) = content.tally(purpose.class) {
                tally.hits += 1;
            }
            content.touch(local(frame).1, purpose, &self.classes, tick)
        };
        self.with_alias(&places, (hash, place), hit)?.1
    }

    pub fn is_resident(&self, place: Place) -> bool {
        let mut found = false;
        self.if_resident(place, || found = true);
        found
    }

    /// Returns the time in ticks. It grows by one while a 64th of the memory is inserted.
    fn tick(&self) -> u8 {
        (self.inserted_bytes.load(Ordering::Relaxed) / self.tick_bytes) as u8 & 7
    }

    fn identity(&self, fingerprint: &Fingerprint) -> Identity {
        Identity::of(fingerprint, self.contents.len())
    }

    pub fn contains(&self, fingerprint: &Fingerprint) -> bool {
        let identity = self.identity(fingerprint);
        self.content(identity.shard).find(&identity).is_some()
    }

    pub fn by_content(
        &self,
        fingerprint: &Fingerprint,
        alias: Option<Place>,
        purpose: Purpose,
    ) -> Option<Frame> {
        let (identity, tick) = (&self.identity(fingerprint), self.tick());
        let mut content = self.content(identity.shard);
        let found = content.find(identity);
        let held = found.and_then(|frame| content.touch(frame, purpose, &self.classes, tick));
        match held {
            Some(_) => content.counters.hits_by_content += 1,
            None => content.counters.misses += 1,
        }
        if let Some(tally) = content.tally(purpose.class) {
            tally.hits += u64::from(held.is_some());
            tally.misses += u64::from(held.is_none());
        }
        drop(content);
        if let Some(place) = alias {
            self.attach(place, identity);
        }
        held
    }

    /// Keeps `run` unless its content is already cached. Returns the kept one.
    pub fn insert(
        &self,
        fingerprint: &Fingerprint,
        run: Arc<Run>,
        alias: Option<Place>,
        purpose: Purpose,
    ) -> Arc<Run> {
        let (identity, tick) = (&self.identity(fingerprint), self.tick());
        let mut content = self.content(identity.shard);
        let held = content.find(identity);
        // Another thread has just inserted it: this is no second use.
        let again = Use::Scan.of(purpose.class);
        let held = held.and_then(|frame| content.touch(frame, again, &self.classes, tick));
        let kept = match held {
            Some(held) => {
                drop(content);
                held.into_run()
            }
            None => {
                let before = content.memory_bytes();
                let frame = content.insert(identity, Arc::clone(&run), purpose, tick);
                let now = content.memory_bytes();
                if let Some(frame) = frame {
                    let taken_bytes = run.taken_bytes() as u64;
                    self.classes.add_clean(purpose.class, taken_bytes);
                    let owner = global(identity.shard, frame);
                    self.memory.set_owner(&run, owner);
                }
                drop(content);
                self.memory.adjust(before, now);
                let len = run.taken_bytes() as u64;
                self.inserted_bytes.fetch_add(len, Ordering::Relaxed);
                if let Some(frame) = frame {
                    let heat = identity.heat(purpose.class, run.taken_bytes());
                    let frame = FrameId(global(identity.shard, frame));
                    self.tell_policy(frame, heat, purpose.for_use);
                }
                run
            }
        };
        if let Some(place) = alias {
            self.attach(place, identity);
        }
        kept
    }

    fn tell_policy(&self, frame: FrameId, heat: Heat, for_use: Use) {
        let mut policy = self.policy.lock();
        let before = policy.memory_bytes();
        policy.inserted(frame, heat, for_use);
        let now = policy.memory_bytes();
        drop(policy);
        self.memory.adjust(before, now);
    }

    pub fn learn_place(&self, fingerprint: &Fingerprint, place: Place) {
        self.attach(place, &self.identity(fingerprint));
    }

    /// Records that `place` has exactly that content.
    fn attach(&self, place: Place, identity: &Identity) {
        let hash = self.hash(place);
        let mut places = self.places(hash);
        let same = |content: &mut ContentShard, alias, frame| {
            let (shard, slot) = local(frame);
            let same = shard == identity.shard && content.is(slot, identity);
            if !same {
                content.remove_alias(alias);
            }
            same
        };
        match self.with_alias(&places, (hash, place), same) {
            Some((_, true)) => return,
            Some((id, false)) => self.removed(&mut places, (hash, place), id),
            None => {}
        }
        let mut content = self.content(identity.shard);
        let Some(frame) = content.find(identity) else {
            return;
        };
        let before = content.memory_bytes();
        let Some(alias) = content.add_alias(frame, place) else {
            return;
        };
        let now = content.memory_bytes();
        let many = self.aliases.fetch_add(1, Ordering::Relaxed) >= self.aliases_max;
        let too_many = content.has_too_many_aliases(frame) || (many && content.aliases(frame) > 1);
        let oldest = content.oldest_place(frame).filter(|_| too_many);
        drop(content);
        self.memory.adjust(before, now);
        let before = places.memory_bytes();
        places.insert(hash, global(identity.shard, alias));
        self.memory.adjust(before, places.memory_bytes());
        self.events.added(place);
        drop(places);
        if let Some(oldest) = oldest {
            self.forget_if(oldest, |id| id == global(identity.shard, frame));
        }
    }
}
