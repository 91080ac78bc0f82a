//! Directories whose entries are still incomplete. The walker and the workers fill them in.
//!
//! Invariant: a directory is stored exactly once, when its last entry is complete.

use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Lane, StoreError};

/// Place of an entry in its directory.
#[derive(Clone)]
pub struct Slot {
    directory: Arc<Pending>,
    number: usize,
}

/// A directory whose entries are still incomplete.
pub struct Pending {
    /// Its own entry and the place in its parent; `None` for the top.
    own: Mutex<Option<(Slot, Entry)>>,
    entries: Mutex<Vec<Option<Entry>>>,
    /// Number of incomplete entries, plus one while the walker is still listing.
    missing: AtomicUsize,
    /// Contents of the top once everything is done.
    top: Mutex<Option<ObjectRoot>>,
}

impl Pending {
    /// Creates a directory. `own`: the place of its own entry.
    pub fn new(own: Option<(Slot, Entry)>) -> Arc<Self> {
        Arc::new(Self {
            own: Mutex::new(own),
            entries: Mutex::default(),
            missing: AtomicUsize::new(1),
            top: Mutex::new(None),
        })
    }

    /// Adds a place for one more entry. Places are in the order of names.
    pub fn slot(self: &Arc<Self>) -> Slot {
        let mut entries = self.entries.lock();
        entries.push(None);
        self.missing.fetch_add(1, Ordering::Relaxed);
        Slot {
            directory: Arc::clone(self),
            number: entries.len() - 1,
        }
    }

    /// The walker has listed all entries.
    pub fn listed(self: &Arc<Self>, lane: &mut Lane) -> Result<(), StoreError> {
        Self::one_less(Arc::clone(self), lane)
    }

    /// Contents of the top, once everything below is stored.
    pub fn root(&self) -> Option<ObjectRoot> {
        *self.top.lock()
    }

    fn one_less(mut directory: Arc<Self>, lane: &mut Lane) -> Result<(), StoreError> {
        // A loop instead of recursion: a chain of directories as long as a path may complete at
        // once.
        while directory.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let entries: Vec<_> = std::mem::take(&mut *directory.entries.lock())
                .into_iter()
                .flatten()
                .collect();
            let content = lane.store_object(&Entry::encode_directory(&entries), true)?;
            let own = directory.own.lock().take();
            match own {
                None => {
                    *directory.top.lock() = Some(content);
                    return Ok(());
                }
                Some((slot, mut entry)) => {
                    entry.kind = EntryKind::Directory { content };
                    slot.put(Some(entry));
                    directory = slot.directory;
                }
            }
        }
        Ok(())
    }
}

impl Slot {
    fn put(&self, entry: Option<Entry>) {
        if let Some(place) = self.directory.entries.lock().get_mut(self.number) {
            *place = entry;
        }
    }

    /// Completes an entry; `None` if it could not be read.
    pub fn fill(self, entry: Option<Entry>, lane: &mut Lane) -> Result<(), StoreError> {
        self.put(entry);
        Pending::one_less(self.directory, lane)
    }
}
