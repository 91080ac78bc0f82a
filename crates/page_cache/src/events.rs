//! What the cache tells about its pages: the events that Duet consumes (Duet, SOSP'15).
//!
//! Invariant: events of one place (of one unwritten page) arrive in the order in which they
//! happened; replaying them gives what is in memory. They are emitted while the shard of that
//! place is locked: a receiver is short, does no I/O, and never calls the cache.

use crate::Place;

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
