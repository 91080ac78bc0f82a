//! What the table knows of a session: what it wants, where, and how sure its knowledge is.
//!
//! Invariant: whether an object is in the scope is asked once, and not while anything is locked but
//! by the session that fetches. Called by shards on the path of events, and by the session.

use crate::page::{Events, Mask, Page, Space};
use crate::sparse_set::SparseSet;
use crate::unpoisoned;
use crate::work::WorkSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};

/// The objects that a scope is made of, when they are no range: the files of a tree.
pub trait Members: Send + Sync {
    /// Whether an object belongs to it; asked once an object (until it is deleted or moved). May
    /// take its time: nothing is locked.
    fn contains(&self, object: u64, generation: u32) -> bool;

    /// Where it is, as the user knows it; `None` when it has no such name.
    fn path(&self, _object: u64) -> Option<String> {
        None
    }
}

/// Which pages a session is about.
pub enum Scope {
    /// All of the space.
    Everything,
    /// One object: a volume, or a snapshot of one.
    Object(u64),
    /// Objects in a range: containers.
    Range(RangeInclusive<u64>),
    /// Objects that are asked for: the files of a snapshot, a directory on a host.
    Snapshot(Box<dyn Members>),
}

/// What is told of objects that have left the scope.
pub(crate) const ENDS: Events = Events::REMOVED.and(Events::FLUSHED);

/// What is known of the objects of a [`Scope::Snapshot`].
#[derive(Default)]
struct Objects {
    /// It was asked whether they belong to the scope ...
    seen: SparseSet,
    /// ... and they do ...
    relevant: SparseSet,
    /// ... or did: that they are gone is told.
    left: SparseSet,
}

/// What is done with an item when it is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relevance {
    Relevant,
    /// Of the item only what ends something is told.
    Left,
    Irrelevant,
}

impl Objects {
    /// `None` when it was not asked yet.
    fn known(&self, object: u64) -> Option<Relevance> {
        let object = u128::from(object);
        let is_seen = self.seen.contains(object);
        is_seen.then(|| match () {
            () if self.relevant.contains(object) => Relevance::Relevant,
            () if self.left.contains(object) => Relevance::Left,
            () => Relevance::Irrelevant,
        })
    }
}

/// See the module's head.
pub(crate) struct Subscriber {
    pub space: Space,
    pub mask: Mask,
    pub scope: Scope,
    objects: RwLock<Objects>,
    done: Mutex<WorkSet>,
    replaying: AtomicBool,
    lost: AtomicU64,
}

impl Subscriber {
    pub fn new(space: Space, scope: Scope, mask: Mask, part_bits: u32) -> Self {
        Self {
            space,
            mask,
            scope,
            objects: RwLock::default(),
            done: Mutex::new(WorkSet::new(part_bits)),
            replaying: AtomicBool::new(true),
            lost: AtomicU64::new(0),
        }
    }

    /// False when the events are nothing to the session for sure. Takes no time.
    pub fn may_want(&self, page: &Page, events: Events) -> bool {
        page.space == self.space
            && self.mask.wanted() & events.0 != 0
            && match &self.scope {
                Scope::Everything => true,
                Scope::Object(object) => page.object == *object,
                Scope::Range(range) => range.contains(&page.object),
                Scope::Snapshot(_) => self.may_be_relevant(page.object, events),
            }
    }

    /// True when it is not known, or cannot be said at once.
    fn may_be_relevant(&self, object: u64, events: Events) -> bool {
        let Ok(objects) = self.objects.try_read() else {
            return true;
        };
        match objects.known(object) {
            None | Some(Relevance::Relevant) => true,
            Some(Relevance::Left) => events.has_any(ENDS),
            Some(Relevance::Irrelevant) => false,
        }
    }

    /// Whether the page is in the scope; asks the caller's own set when that is not known yet.
    pub fn relevance(&self, page: &Page) -> Relevance {
        let Scope::Snapshot(members) = &self.scope else {
            return Relevance::Relevant;
        };
        let known = unpoisoned(self.objects.read()).known(page.object);
        known.unwrap_or_else(|| {
            let is_member = members.contains(page.object, page.generation);
            let mut objects = unpoisoned(self.objects.write());
            // It may have been moved meanwhile.
            objects.known(page.object).unwrap_or_else(|| {
                objects.seen.insert(u128::from(page.object));
                if is_member {
                    objects.relevant.insert(u128::from(page.object));
                    Relevance::Relevant
                } else {
                    Relevance::Irrelevant
                }
            })
        })
    }

    /// The object has moved into the scope, or out of it. False when that is nothing new.
    pub fn moved(&self, object: u64, is_inside: bool) -> bool {
        let object = u128::from(object);
        let mut objects = unpoisoned(self.objects.write());
        objects.seen.insert(object);
        if is_inside {
            objects.left.remove(object);
            objects.relevant.insert(object)
        } else {
            let was_inside = objects.relevant.remove(object);
            if was_inside {
                objects.left.insert(object);
            }
            was_inside
        }
    }

    /// Nothing is known of the object any more.
    pub fn deleted(&self, number: u64) {
        let object = u128::from(number);
        let mut objects = unpoisoned(self.objects.write());
        let objects = &mut *objects;
        for set in [&mut objects.seen, &mut objects.relevant, &mut objects.left] {
            set.remove(object);
        }
        self.done().remove_object(number);
    }

    /// The work that is done.
    pub fn done(&self) -> MutexGuard<'_, WorkSet> {
        unpoisoned(self.done.lock())
    }

    /// Whether what the session was told may differ from what its pending items suppose.
    pub fn is_unsure(&self) -> bool {
        self.replaying.load(Ordering::Relaxed) || self.lost() > 0
    }

    pub fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::Release);
    }

    /// Items that were dropped for want of memory.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose_an_item(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub fn forgive_losses(&self) {
        self.lost.store(0, Ordering::Relaxed);
    }

    /// Memory of what is known of objects and of work, bytes.
    pub fn memory_bytes(&self) -> usize {
        let objects = unpoisoned(self.objects.read());
        let sets = [&objects.seen, &objects.relevant, &objects.left];
        let objects: usize = sets.iter().map(|set| set.memory_bytes()).sum();
        objects + self.done().memory_bytes()
    }
}
