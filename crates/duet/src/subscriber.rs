//! State of a session that the table sees: its mask, its scope, and whether its knowledge is sure.
//! Shards call this for each event; the session calls it when it fetches.
//!
//! Invariant: whether an object is in the scope is asked once, while only the fetching session's
//! own lock is held.

use crate::page::{Events, Mask, Page, Space};
use crate::sparse_set::SparseSet;
use crate::work::WorkSet;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The objects of a scope that is no range: the files of a tree.
pub trait Members: Send + Sync {
    /// Returns true if the object belongs to the scope. Asked once for each object, until it is
    /// deleted or moved. May be slow: no lock of the table is held.
    fn contains(&self, object: u64, generation: u32) -> bool;

    /// Returns the path of the object as the user knows it; `None` if it has none.
    fn path(&self, _object: u64) -> Option<String> {
        None
    }
}

/// The pages that a session is about.
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

/// Events that are delivered for objects that left the scope.
pub(crate) const ENDS: Events = Events::REMOVED.and(Events::FLUSHED);

/// Known objects of a [`Scope::Snapshot`].
#[derive(Default)]
struct Objects {
    /// Objects for which membership was asked.
    seen: SparseSet,
    /// Members.
    relevant: SparseSet,
    /// Former members. Only the end of their presence is delivered.
    left: SparseSet,
}

/// Treatment of an item when it is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relevance {
    Relevant,
    /// Only events that end a state are delivered.
    Left,
    Irrelevant,
}

impl Objects {
    /// Returns `None` if membership was not asked yet.
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

    /// Returns false if the session certainly does not want the events. Fast.
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

    /// Returns true if membership is unknown, or the lock is taken.
    fn may_be_relevant(&self, object: u64, events: Events) -> bool {
        let Some(objects) = self.objects.try_read() else {
            return true;
        };
        match objects.known(object) {
            None | Some(Relevance::Relevant) => true,
            Some(Relevance::Left) => events.has_any(ENDS),
            Some(Relevance::Irrelevant) => false,
        }
    }

    /// Returns whether the page is in the scope. Asks the caller's [`Members`] if that is unknown.
    pub fn relevance(&self, page: &Page) -> Relevance {
        let Scope::Snapshot(members) = &self.scope else {
            return Relevance::Relevant;
        };
        let known = self.objects.read().known(page.object);
        known.unwrap_or_else(|| {
            let is_member = members.contains(page.object, page.generation);
            let mut objects = self.objects.write();
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

    /// Records that the object moved into the scope or out of it. Returns false if that changes
    /// nothing.
    pub fn moved(&self, object: u64, is_inside: bool) -> bool {
        let object = u128::from(object);
        let mut objects = self.objects.write();
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

    /// Forgets the object.
    pub fn deleted(&self, number: u64) {
        let object = u128::from(number);
        let mut objects = self.objects.write();
        let objects = &mut *objects;
        for set in [&mut objects.seen, &mut objects.relevant, &mut objects.left] {
            set.remove(object);
        }
        self.done().remove_object(number);
    }

    /// The done units.
    pub fn done(&self) -> MutexGuard<'_, WorkSet> {
        self.done.lock()
    }

    /// Returns true if the session's knowledge may differ from what its pending items assume.
    pub fn is_unsure(&self) -> bool {
        self.replaying.load(Ordering::Relaxed) || self.lost() > 0
    }

    pub fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::Release);
    }

    /// Number of items dropped for lack of memory.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose_an_item(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub fn forgive_losses(&self) {
        self.lost.store(0, Ordering::Relaxed);
    }

    /// Memory of the sets of objects and of work, bytes.
    pub fn memory_bytes(&self) -> usize {
        let objects = self.objects.read();
        let sets = [&objects.seen, &objects.relevant, &objects.left];
        let objects: usize = sets.iter().map(|set| set.memory_bytes()).sum();
        objects + self.done().memory_bytes()
    }
}
