//! Visits dirty pages one after another. `present` calls this for new listeners.
//!
//! Invariant: a page is visited under the lock of its shard, so it cannot change meanwhile.

use super::DirtyPages;
use super::page::Page;
use crate::events::{CAME_DIRTY, Next, PageVisitor, dirty_page};

impl DirtyPages {
    /// Visits up to `left` slots of a shard, starting at `from`. `None` when there is no such
    /// shard.
    pub fn visit(
        &self,
        shard: usize,
        from: u64,
        left: &mut usize,
        visit: PageVisitor,
    ) -> Option<Next> {
        let shard = self.shards.get(shard)?.lock();
        let slots = shard.pages.get(from as usize..).unwrap_or_default();
        for (next, slot) in (from + 1..).zip(slots) {
            if slot.run.is_some() {
                visit(&dirty_page(slot.object, slot.page), CAME_DIRTY);
            }
            *left -= 1;
            if *left == 0 {
                return Some(Next::From(next));
            }
        }
        Some(Next::Shard)
    }

    /// Visits all pages of an object.
    pub fn visit_object(&self, object: u64, visit: PageVisitor) {
        for shard in &self.shards {
            let shard = shard.lock();
            let of = |p: &&Page| p.run.is_some() && p.object == object;
            for slot in shard.pages.iter().filter(of) {
                visit(&dirty_page(slot.object, slot.page), CAME_DIRTY);
            }
        }
    }
}
