//! Replays the current contents of memory for sessions that begin to listen. Duet's sessions call
//! this.
//!
//! Invariant: a place is visited under the lock of its shard, so between two events of it. A visit
//! locks a shard for at most `max` places.

use crate::cache::PageCache;
use crate::events::{Next, PageVisitor};
use duet::{Position, Present, Space};

impl Present for PageCache {
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: PageVisitor,
    ) -> Option<Position> {
        let [mut shard, mut from] = position.unwrap_or_default().0;
        let mut left = max.max(1);
        loop {
            let next = match space {
                Space::Containers => None,
                Space::Chunks => self.clean.visit(shard as usize, from, &mut left, visit),
                Space::Pages => self.dirty.visit(shard as usize, from, &mut left, visit),
            };
            match next? {
                Next::From(next) => from = next,
                Next::Shard => (shard, from) = (shard + 1, 0),
            }
            if left == 0 {
                return Some(Position([shard, from]));
            }
        }
    }

    fn replay_object(&self, space: Space, object: u64, visit: PageVisitor) {
        match space {
            Space::Containers => {}
            Space::Chunks => self.clean.visit_object(object, visit),
            Space::Pages => self.dirty.visit_object(object, visit),
        }
    }
}
