//! A session: what a task holds of the table.
//!
//! Invariant: shards take turns, and items of a shard come in rounds; an item that is there when a
//! round begins is told in that round, whatever else happens. A fetch never waits and does a bounded
//! amount of work.
//! Called by the driver, or by a task of its own.

use crate::page::{Events, Item, Mask, Page, Space};
use crate::subscriber::{ENDS, Relevance, Scope, Subscriber};
use crate::table::{Duet, SHARDS, TooManySessions};
use crate::unpoisoned;
use crate::work::{Work, WorkSet};
use std::sync::{Arc, Mutex};

/// Records that a fetch looks at for each item that it is asked for, and in any case.
const VISITS: (usize, usize) = (4, 4096);

/// A place in the order in which the present is replayed; a number of whoever replays it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position(pub [u64; 2]);

/// Where the pages that are in memory are asked for.
///
/// A page is visited while no event of it can be reported: under the lock under which they are.
/// `visit` gets it with the events that lead to its state: Added, Dirtied, or both. It is short
/// and calls nothing of the visited.
pub trait Present {
    /// About `max` pages of a space after `position` (from the start: `None`). Returns where to go
    /// on; `None` when all pages were visited that were there all the time.
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position>;

    /// All pages of one object.
    fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events));
}

/// No page is there: for sessions that hear only of what comes.
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

/// Items of one shard before it is the next one's turn, so that also with more news than a session
/// fetches each shard has its turns.
const TURN: usize = 16;

/// Where a session is in the table and in the present.
struct Walk {
    shard: usize,
    /// Items until it is the next shard's turn.
    turn: usize,
    /// By shard: records that are to be looked at in this round; `None` before the first.
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

/// See the module's head. Dropping it ends it.
pub struct Session {
    duet: Arc<Duet>,
    number: usize,
    subscriber: Arc<Subscriber>,
    walk: Mutex<Walk>,
}

impl Duet {
    /// Registers a session that is told, beginning with the present, what `mask` asks for of the
    /// pages in `scope`. Its units of work have parts of `part_bits` bits (see
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

    /// Adds up to `max` items to `items`. Fewer, or none, do not mean that there are no more: ask
    /// again later. While the present has not been replayed, up to `max` pages of it are first.
    pub fn fetch(&self, present: &dyn Present, max: usize, items: &mut Vec<Item>) {
        let mut walk = unpoisoned(self.walk.lock());
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
            let told = fetched.len() - before;
            walk.turn -= told;
            if walk.turn == 0 || at == 0 {
                walk.shard = (walk.shard + 1) % SHARDS;
                walk.turn = TURN;
            }
            shards_without_news = if told > 0 { 0 } else { shards_without_news + 1 };
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

    /// Items that were dropped for want of memory since the present was replayed. When there are
    /// some, what the session knows of pages may be wrong for ever: [`resync`](Self::resync).
    pub fn lost(&self) -> u64 {
        self.subscriber.lost()
    }

    /// Starts again: what has not been told is forgotten, and the present is replayed. The caller
    /// forgets what it was told.
    pub fn resync(&self) {
        let mut walk = unpoisoned(self.walk.lock());
        self.subscriber.set_replaying(true);
        self.subscriber.forgive_losses();
        for shard in 0..SHARDS {
            self.duet.shard(shard).forget(self.number);
        }
        *walk = START;
    }

    /// Whether the present has been replayed.
    pub fn is_replayed(&self) -> bool {
        matches!(unpoisoned(self.walk.lock()).replay, Replay::Done)
    }

    /// Items that wait for this session, those of objects that are irrelevant included.
    pub fn pending(&self) -> usize {
        let waiting = |shard| self.duet.shard(shard).waiting(self.number);
        (0..SHARDS).map(waiting).sum()
    }

    /// An object has moved into the scope (Added and Dirtied are told for what of it is in memory)
    /// or out of it (Removed and Flushed). For scopes whose objects are asked for.
    pub fn moved(&self, object: u64, is_inside: bool, present: &dyn Present) {
        if !self.subscriber.moved(object, is_inside) {
            return;
        }
        let mut visit = |page: &Page, events: Events| {
            let told = if is_inside { events } else { events.opposite() };
            self.duet.inject(self.number, page, told);
        };
        present.replay_object(self.subscriber.space, object, &mut visit);
    }

    /// Where an object is, as the user knows it, when it is in the scope.
    pub fn path(&self, object: u64) -> Option<String> {
        match &self.subscriber.scope {
            Scope::Snapshot(members) => members.path(object),
            _ => None,
        }
    }

    /// Whether the work is done.
    pub fn check_done(&self, work: Work) -> bool {
        self.subscriber.done().contains(work)
    }

    /// The work is done. False when it was, or when it has no bit of its own.
    pub fn set_done(&self, work: Work) -> bool {
        self.subscriber.done().insert(work)
    }

    /// The work is to be done again. False when it was not done.
    pub fn unset_done(&self, work: Work) -> bool {
        self.subscriber.done().remove(work)
    }

    /// All work that is done.
    pub fn all_done(&self) -> WorkSet {
        self.subscriber.done().clone()
    }

    /// From now on this work is done, and no other.
    pub fn set_all_done(&self, done: WorkSet) {
        *self.subscriber.done() = done;
    }

    pub(crate) fn mask(&self) -> Mask {
        self.subscriber.mask
    }

    /// Memory of what is known of objects and of work, bytes, about.
    pub fn memory_bytes(&self) -> usize {
        self.subscriber.memory_bytes()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.duet.deregister(self.number);
    }
}
