//! Files of snapshots that are open.
//!
//! Invariant: a content that is open several times is open once here, so that what was decoded of
//! its recipe serves all. Handles are never used again.

use format::recipe::ObjectRoot;
use fuse::{Errno, Handle};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{ImageVolume, Reader};
use volume::Checked;

/// An open content.
pub(super) type OpenFile = Arc<Checked<ImageVolume>>;

struct Opened {
    file: OpenFile,
    root: ObjectRoot,
    opens: u64,
}

#[derive(Default)]
struct Table {
    by_handle: HashMap<Handle, Opened>,
    by_content: HashMap<ObjectRoot, Handle>,
    last: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Table>);

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Opens a content once more.
    pub fn open(&self, reader: &Arc<Reader>, root: ObjectRoot) -> Handle {
        let mut guard = self.lock();
        let table = &mut *guard;
        if let Some(handle) = table.by_content.get(&root)
            && let Some(opened) = table.by_handle.get_mut(handle)
        {
            opened.opens += 1;
            return *handle;
        }
        table.last += 1;
        let handle = Handle(table.last);
        let volume = ImageVolume::new(Arc::clone(reader), root, String::new());
        let opened = Opened {
            file: Arc::new(Checked::new(volume)),
            root,
            opens: 1,
        };
        table.by_handle.insert(handle, opened);
        table.by_content.insert(root, handle);
        handle
    }

    /// What a handle stands for.
    pub fn get(&self, handle: Handle) -> Result<OpenFile, Errno> {
        let table = self.lock();
        let opened = table.by_handle.get(&handle).ok_or(Errno::BADF)?;
        Ok(Arc::clone(&opened.file))
    }

    /// Closes a content once.
    pub fn close(&self, handle: Handle) {
        let mut table = self.lock();
        let Some(opened) = table.by_handle.get_mut(&handle) else {
            return;
        };
        opened.opens -= 1;
        if opened.opens == 0
            && let Some(closed) = table.by_handle.remove(&handle)
        {
            table.by_content.remove(&closed.root);
        }
    }
}
