//! Moments of a volume in memory, and what changed since.
//!
//! Invariant: epochs count marks; a page that was last changed in an epoch that began after a mark
//! is changed since that mark. The epoch moves only while all of the volume's shards are locked.
//! [`super::MemoryVolume`] calls this.

use super::pages::Store;
use crate::{Change, Changes, RequestContext, VolumeError};
use parking_lot::RwLock;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A moment.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// The last epoch before it.
    epoch: u64,
    /// The volume's size then.
    size_bytes: u64,
}

/// The moments of one volume, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    epoch: AtomicU64,
    list: RwLock<Vec<(String, Mark)>>,
}

impl Marks {
    /// What changes now is stamped with.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(super) fn add(&self, name: &str, size_bytes: u64) {
        let mut list = self.list.write();
        let epoch = self.epoch.fetch_add(1, Relaxed);
        list.retain(|(other, _)| other != name);
        list.push((name.to_owned(), Mark { epoch, size_bytes }));
    }

    pub(super) fn names(&self, count_max: usize) -> Vec<String> {
        let list = self.list.read();
        let names = list.iter().rev().take(count_max);
        names.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn since(&self, name: &str) -> Option<Mark> {
        let list = self.list.read();
        let found = list.iter().find(|(other, _)| other == name);
        found.map(|(_, mark)| *mark)
    }
}

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
