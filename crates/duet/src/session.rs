//! A session: one task's handle to the table. The driver calls this.
//!
//! Invariant: shards take turns. An item that is there when a walk through its shard begins is
//! delivered in that walk. A fetch does a bounded amount of work and waits only for the lock of a
//! shard.

use crate::page::{Events, Item, Mask, Page, Space};
use crate::subscriber::{ENDS, Relevance, Scope, Subscriber};
use crate::table::{Duet, SHARDS, TooManySessions};
use crate::work::{Work, WorkSet};
use parking_lot::Mutex;
use std::sync::Arc;

/// Records that a fetch looks at: for each requested item, and at least.
const VISITS: (usize, usize) = (4, 4096);

/// Position in the replay of the pages in memory. The implementation of [`Present`] chooses the
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position(pub [u64; 2]);

/// Source of the pages that are in memory now.
///
/// A page is visited under the lock under which its events are reported, so that none is reported
/// meanwhile. `visit` gets the page with the events that lead to its state: Added, Dirtied, or
/// both. It is short and does not call back into the source.
pub trait Present {
    /// Visits about `max` pages of a space after `position` (`None`: from the start). Returns where
    /// to continue; `None` once every page was visited that was present all the time.
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position>;

    /// Visits all pages of one object.
    fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events));
}

/// No page is present: for sessions that want only future events.
pub struct NothingPresent;

impl Present for NothingPresent {
    fn replay(
        &self,
        _: Space,
        _: Option<Position>,
        _: usize,
        _: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position> {
        None
    }

    fn replay_object(&self, _: Space, _: u64, _: &mut dyn FnMut(&Page, Events)) {}
}

/// Items of one shard before the next shard's turn. Every shard gets its turns even if there are
/// more events than the session fetches.
const TURN: usize = 16;

/// Position of a session in the table and in the replay.
struct Walk {
    shard: usize,
    /// Items left until the next shard's turn.
    turn: usize,
    /// By shard: records left in this walk; `None` before the first one.
    cursors: [Option<usize>; SHARDS],
    replay: Replay,
}

#[derive(Clone, Copy)]
enum Replay {
    After(Option<Position>),
    Done,
}

const START: Walk = Walk {
    shard: 0,
    turn: TURN,
    cursors: [None; SHARDS],
    replay: Replay::After(None),
};

/// See the module's head. Dropping it deregisters the session.
pub struct Session {
    duet: Arc<Duet>,
    number: usize,
    subscriber: Arc<Subscriber>,
    walk: Mutex<Walk>,
}

impl Duet {
    /// Registers a session for the events that `mask` selects, of pages in `scope`, beginning with
    /// the pages in memory. Parts of its units of work have numbers of `part_bits` bits (see
    /// [`WorkSet::new`](crate::WorkSet::new)).
    pub fn register(
        self: &Arc<Self>,
        space: Space,
        scope: Scope,
        mask: Mask,
        part_bits: u32,
    ) -> Result<Session, TooManySessions> {
        let subscriber = Arc::new(Subscriber::new(space, scope, mask, part_bits));
        let number = self.enter(&subscriber)?;
        Ok(Session::new(Arc::clone(self), number, subscriber))
    }
}

impl Session {
    fn new(duet: Arc<Duet>, number: usize, subscriber: Arc<Subscriber>) -> Self {
        Self {
            duet,
            number,
            subscriber,
            walk: Mutex::new(START),
        }
    }

    /// Appends up to `max` items to `items`. Fewer items, or none, do not mean that no more are
    /// pending: ask again later. During the replay, up to `max` present pages are added to the
    /// table first.
    pub fn fetch(&self, present: &dyn Present, max: usize, items: &mut Vec<Item>) {
        let mut walk = self.walk.lock();
        self.go_on_replaying(&mut walk, present, max);
        let mut fetched = Vec::new();
        let mut visits = max.saturating_mul(VISITS.0).max(VISITS.1);
        let mut shards_without_news = 0;
        while fetched.len() < max && visits > 0 && shards_without_news <= SHARDS {
            let before = fetched.len();
            let wanted = walk.turn.min(max - before);
            let mut shard = self.duet.shard(walk.shard);
            let number = walk.shard;
            let mut at = walk.cursors[number].unwrap_or_else(|| shard.len());
            shard.fetch(self.number, &mut at, (wanted, &mut visits), &mut fetched);
            drop(shard);
            walk.cursors[number] = (at > 0).then_some(at);
            let reported = fetched.len() - before;
            walk.turn -= reported;
            if walk.turn == 0 || at == 0 {
                walk.shard = (walk.shard + 1) % SHARDS;
                walk.turn = TURN;
            }
            shards_without_news = if reported > 0 {
                0
            } else {
                shards_without_news + 1
            };
        }
        items.extend(fetched.into_iter().filter_map(|item| self.relevant(item)));
    }

    fn go_on_replaying(&self, walk: &mut Walk, present: &dyn Present, max: usize) {
        let Replay::After(position) = walk.replay else {
            return;
        };
        let mut visit = |page: &Page, events: Events| {
            if self.subscriber.may_want(page, events) {
                self.duet.inject(self.number, page, events);
            }
        };
        match present.replay(self.subscriber.space, position, max, &mut visit) {
            Some(position) => walk.replay = Replay::After(Some(position)),
            None => {
                walk.replay = Replay::Done;
                self.subscriber.set_replaying(false);
            }
        }
    }

    fn relevant(&self, item: Item) -> Option<Item> {
        match self.subscriber.relevance(&item.page) {
            Relevance::Relevant => Some(item),
            Relevance::Irrelevant => None,
            Relevance::Left => {
                let events = item.events.only(ENDS);
                (events != Events::NONE).then_some(Item { events, ..item })
            }
        }
    }

    /// Number of items dropped for lack of memory since the last replay began. If it is not zero,
    /// the session's knowledge of pages may stay wrong: call [`resync`](Self::resync).
    pub fn lost(&self) -> u64 {
        self.subscriber.lost()
    }

    /// Drops pending items and replays the pages in memory. The caller must forget what it has
    /// learned.
    pub fn resync(&self) {
        let mut walk = self.walk.lock();
        self.subscriber.set_replaying(true);
        self.subscriber.forgive_losses();
        for shard in 0..SHARDS {
            self.duet.shard(shard).forget(self.number);
        }
        *walk = START;
    }

    /// Returns true if the replay is complete.
    pub fn is_replayed(&self) -> bool {
        matches!(self.walk.lock().replay, Replay::Done)
    }

    /// Number of pending items, including those of irrelevant objects.
    pub fn pending(&self) -> usize {
        let waiting = |shard| self.duet.shard(shard).waiting(self.number);
        (0..SHARDS).map(waiting).sum()
    }

    /// An object moved into the scope (its pages in memory are delivered as Added and Dirtied) or
    /// out of it (as Removed and Flushed). For [`Scope::Snapshot`].
    pub fn moved(&self, object: u64, is_inside: bool, present: &dyn Present) {
        if !self.subscriber.moved(object, is_inside) {
            return;
        }
        let mut visit = |page: &Page, events: Events| {
            let reported = if is_inside { events } else { events.opposite() };
            self.duet.inject(self.number, page, reported);
        };
        present.replay_object(self.subscriber.space, object, &mut visit);
    }

    /// Returns the path of an object in the scope, as the user knows it.
    pub fn path(&self, object: u64) -> Option<String> {
        match &self.subscriber.scope {
            Scope::Snapshot(members) => members.path(object),
            _ => None,
        }
    }

    /// Returns true if the unit is done.
    pub fn check_done(&self, work: Work) -> bool {
        self.subscriber.done().contains(work)
    }

    /// Marks the unit as done. Returns false if it was already, or if it has no bit of its own.
    pub fn set_done(&self, work: Work) -> bool {
        self.subscriber.done().insert(work)
    }

    /// Marks the unit as not done. Returns false if it was not done.
    pub fn unset_done(&self, work: Work) -> bool {
        self.subscriber.done().remove(work)
    }

    /// Returns all done units.
    pub fn all_done(&self) -> WorkSet {
        self.subscriber.done().clone()
    }

    /// Replaces the set of done units.
    pub fn set_all_done(&self, done: WorkSet) {
        *self.subscriber.done() = done;
    }

    pub(crate) fn mask(&self) -> Mask {
        self.subscriber.mask
    }

    /// Approximate memory of the sets of objects and of work, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.subscriber.memory_bytes()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.duet.deregister(self.number);
    }
}
