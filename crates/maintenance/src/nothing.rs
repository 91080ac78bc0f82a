//! No page is in memory: the present, for tasks that are told nothing of it.
//!
//! Invariant: a task that hears nothing does the same work in its own order. Called by tasks.

use duet::{Events, Page, Position, Present, Space};

/// See the module's head.
pub(crate) struct Nothing;

impl Present for Nothing {
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
