//! Emits page events, which Duet consumes (Duet, SOSP'15).
//!
//! Invariant: events of one place (of one dirty page) arrive in the order in which they happened.
//! Replaying them gives the contents of memory. They are emitted while the shard of that place is
//! locked. A receiver is therefore short, does no I/O, and never calls the cache.

use crate::Place;
use duet::{Duet, Events, Page, Space};

/// Receives page events. Each method does nothing by default.
pub trait PageEvents: Send + Sync {
    /// A chunk of a place, equal to the stored one, is now in memory under that place.
    fn added(&self, _place: Place) {}
    /// The chunk is no longer in memory under that place: it was evicted, or the place has other
    /// content now.
    fn removed(&self, _place: Place) {}
    /// A 4 KiB page with bytes that are not destaged is now in memory, and was not before.
    fn dirtied(&self, _object: u64, _page: u64) {}
    /// Such a page was destaged and left memory.
    fn flushed(&self, _object: u64, _page: u64) {}
    /// Such a page left memory before it was destaged: it was evicted, or its object was forgotten.
    /// Readers take it from the journal.
    fn spilled(&self, _object: u64, _page: u64) {}
}

/// Listener that ignores all events.
pub struct NoEvents;

impl PageEvents for NoEvents {}

pub(crate) fn chunk_page(place: Place) -> Page {
    Page {
        space: Space::Chunks,
        object: place.object,
        generation: 0,
        index: place.chunk,
    }
}

pub(crate) fn dirty_page(object: u64, page: u64) -> Page {
    Page {
        space: Space::Pages,
        object,
        generation: 0,
        index: page,
    }
}

/// A dirty page came into memory.
pub(crate) const CAME_DIRTY: Events = Events::ADDED.and(Events::DIRTIED);
/// The page is neither in memory nor modified any more.
const REMOVED_CLEAN: Events = Events::REMOVED.and(Events::FLUSHED);

/// Translates events: chunks of places are pages of [`Space::Chunks`], dirty pages are pages of
/// [`Space::Pages`]. A task sees a spilled page as flushed: no dirty bytes of it are in memory.
impl PageEvents for Duet {
    fn added(&self, place: Place) {
        self.record(&chunk_page(place), Events::ADDED);
    }

    fn removed(&self, place: Place) {
        self.record(&chunk_page(place), Events::REMOVED);
    }

    fn dirtied(&self, object: u64, page: u64) {
        self.record(&dirty_page(object, page), CAME_DIRTY);
    }

    fn flushed(&self, object: u64, page: u64) {
        self.record(&dirty_page(object, page), REMOVED_CLEAN);
    }

    fn spilled(&self, object: u64, page: u64) {
        self.record(&dirty_page(object, page), REMOVED_CLEAN);
    }
}

/// Receiver of places that exist.
pub(crate) type PageVisitor<'a> = &'a mut dyn FnMut(&Page, Events);

/// Position at which a visit continues.
pub(crate) enum Next {
    /// In the same shard.
    From(u64),
    /// In the next one.
    Shard,
}
