//! Reports changes of a volume in memory since a mark. [`super::MemoryVolume`] calls this.
//!
//! Invariant: a page counts as changed if its last change was in a later epoch than the mark's, or
//! if it lies past the end of the volume at that time.

use super::marks::Mark;
use super::pages::Store;
use crate::{Change, Changes, RequestContext, VolumeError};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The changes of one volume since one mark.
pub(super) struct Since {
    store: Arc<Store>,
    mark: Mark,
}

impl Since {
    pub(super) fn new(store: Arc<Store>, mark: Mark) -> Self {
        Self { store, mark }
    }
}

impl Changes for Since {
    fn pieces(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let mut pending: Option<Change> = None;
        let Mark { epoch, size_bytes } = self.mark;
        self.store
            .pages(offset_bytes, len_bytes, &mut |at, len, page| {
                let touched = page.is_some_and(|(group, page)| group.changed[page] > epoch);
                let changed = touched || at + len > size_bytes;
                match &mut pending {
                    Some(change) if change.changed == changed => change.len_bytes += len,
                    _ => {
                        let next = Change {
                            offset_bytes: at,
                            len_bytes: len,
                            changed,
                        };
                        if let Some(change) = pending.replace(next) {
                            return visit(change);
                        }
                    }
                }
                ControlFlow::Continue(())
            });
        if let Some(change) = pending {
            let _ = visit(change);
        }
        Ok(())
    }
}
