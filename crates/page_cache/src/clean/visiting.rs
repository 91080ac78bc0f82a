//! Visits places one after another. `present` calls this for new listeners.
//!
//! Invariant: a place is visited under the lock of its shard of places, so it cannot change
//! meanwhile.

use super::{CleanPages, local};
use crate::Place;
use crate::events::{Next, PageVisitor, chunk_page};
use duet::Events;

impl CleanPages {
    /// Visits up to `left` places of a shard, starting at `from`. `None` when there is no such
    /// shard.
    pub fn visit(
        &self,
        shard: usize,
        from: u64,
        left: &mut usize,
        visit: PageVisitor,
    ) -> Option<Next> {
        let places = self.places.get(shard)?.lock();
        for (id, next) in places.entries_from(from) {
            let (shard, alias) = local(id);
            if let Some(place) = self.content(shard).place_of(alias) {
                visit(&chunk_page(place), Events::ADDED);
            }
            *left -= 1;
            if *left == 0 {
                return Some(Next::From(next));
            }
        }
        Some(Next::Shard)
    }

    /// Visits all places of an object.
    pub fn visit_object(&self, object: u64, visit: PageVisitor) {
        for shard in 0..self.contents.len() {
            let places = self.content(shard).places_of(object);
            for place in places {
                self.if_resident(place, || visit(&chunk_page(place), Events::ADDED));
            }
        }
    }

    /// Runs `act` if the place is in memory. The place stays in memory meanwhile.
    pub fn if_resident(&self, place: Place, act: impl FnOnce()) {
        let hash = self.hash(place);
        let places = self.places(hash);
        let found = self.with_alias(&places, (hash, place), |_, _, _| ());
        if found.is_some() {
            act();
        }
    }
}
