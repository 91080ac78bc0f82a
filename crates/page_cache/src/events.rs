//! What the cache tells about its pages: the events that Duet consumes (Duet, SOSP'15).
//!
//! Invariant: events of one place (of one unwritten page) arrive in the order in which they
//! happened; replaying them gives what is in memory. They are emitted while the shard of that
//! place is locked: a receiver is short, does no I/O, and never calls the cache.

use crate::Place;
use duet::{Duet, Events, Page, Space};

/// Receives page events; each method does nothing unless it is written.
pub trait PageEvents: Send + Sync {
    /// A chunk of a place, equal to what is stored, is in memory under that place.
    fn added(&self, _place: Place) {}
    /// It is no longer in memory under that place: evicted, or the place has other content now.
    fn removed(&self, _place: Place) {}
    /// A 4 KiB page with bytes that are not destaged is in memory, and was not before.
    fn dirtied(&self, _object: u64, _page: u64) {}
    /// Such a page was destaged and left memory.
    fn flushed(&self, _object: u64, _page: u64) {}
    /// Such a page left memory before it was destaged (evicted, or its object was forgotten): who
    /// needs it takes it from the journal.
    fn spilled(&self, _object: u64, _page: u64) {}
}

/// Nobody listens.
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

pub(crate) fn unwritten_page(object: u64, page: u64) -> Page {
    Page {
        space: Space::Pages,
        object,
        generation: 0,
        index: page,
    }
}

/// An unwritten page is in memory and modified.
pub(crate) const UNWRITTEN: Events = Events::ADDED.and(Events::DIRTIED);
/// It is neither any more.
const GONE: Events = Events::REMOVED.and(Events::FLUSHED);

/// Chunks of places are pages of [`Space::Chunks`], unwritten pages are pages of [`Space::Pages`].
/// To a task, a page that was spilled is flushed: no unwritten bytes of it are in memory.
impl PageEvents for Duet {
    fn added(&self, place: Place) {
        self.record(&chunk_page(place), Events::ADDED);
    }

    fn removed(&self, place: Place) {
        self.record(&chunk_page(place), Events::REMOVED);
    }

    fn dirtied(&self, object: u64, page: u64) {
        self.record(&unwritten_page(object, page), UNWRITTEN);
    }

    fn flushed(&self, object: u64, page: u64) {
        self.record(&unwritten_page(object, page), GONE);
    }

    fn spilled(&self, object: u64, page: u64) {
        self.record(&unwritten_page(object, page), GONE);
    }
}
