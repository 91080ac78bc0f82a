//! A directory whose entries are still coming in.

use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Lane, StoreError};

/// Where a finished entry goes.
#[derive(Clone)]
pub struct Slot {
    directory: Arc<Pending>,
    number: usize,
}

/// A directory whose entries are still coming in.
pub struct Pending {
    /// Itself as an entry of its parent; the top has none.
    own: Mutex<Option<(Slot, Entry)>>,
    entries: Mutex<Vec<Option<Entry>>>,
    /// Entries that are missing, plus one while the walker is still listing.
    missing: AtomicUsize,
    /// Contents of the top once all is done.
    top: Mutex<Option<ObjectRoot>>,
}

impl Pending {
    /// A directory; `own` says where its own entry goes.
    pub fn new(own: Option<(Slot, Entry)>) -> Arc<Self> {
        Arc::new(Self {
            own: Mutex::new(own),
            entries: Mutex::default(),
            missing: AtomicUsize::new(1),
            top: Mutex::new(None),
        })
    }

    /// A place for one more entry. Places are in the order of names.
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

    /// The top's contents, once everything below is stored.
    pub fn root(&self) -> Option<ObjectRoot> {
        *self.top.lock()
    }

    fn one_less(mut directory: Arc<Self>, lane: &mut Lane) -> Result<(), StoreError> {
        // A loop, not a recursion: a chain of directories may close as long as paths may be.
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

    /// Puts the finished entry, or nothing when it could not be read.
    pub fn fill(self, entry: Option<Entry>, lane: &mut Lane) -> Result<(), StoreError> {
        self.put(entry);
        Pending::one_less(self.directory, lane)
    }
}
