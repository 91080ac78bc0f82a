//! Files and directories of snapshots that are open.
//!
//! Invariant: a content that is open several times in a snapshot is open once here, so that what was
//! decoded of its recipe serves all. What is open keeps its snapshot from the collector. Handles are
//! never used again.

use format::recipe::ObjectRoot;
use fuse::{Errno, Handle, NodeId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use store::{ImageVolume, OpenSnapshot, Reader};
use units::SnapshotId;
use volume::Checked;

/// An open content.
pub(super) type OpenFile = Arc<Checked<ImageVolume>>;

/// A content, and the snapshot that is kept for it.
type Content = (ObjectRoot, Option<SnapshotId>);

struct Opened {
    file: OpenFile,
    content: Content,
    opens: u64,
    _kept: Option<OpenSnapshot>,
}

/// An open directory.
struct OpenDirectory {
    /// An entry of it, looked up once so that its place stays known.
    entry: NodeId,
    _kept: Option<OpenSnapshot>,
}

#[derive(Default)]
struct Table {
    by_handle: HashMap<Handle, Opened>,
    by_content: HashMap<Content, Handle>,
    directories: HashMap<Handle, OpenDirectory>,
    last: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Table>);

impl OpenFiles {
    /// Opens a content once more; `kept` is its snapshot, as far as that can be kept.
    pub fn open(
        &self,
        reader: &Arc<Reader>,
        root: ObjectRoot,
        kept: Option<OpenSnapshot>,
    ) -> Handle {
        let content = (root, kept.as_ref().map(OpenSnapshot::snapshot));
        let mut guard = self.0.lock();
        let table = &mut *guard;
        if let Some(handle) = table.by_content.get(&content)
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
            content,
            opens: 1,
            _kept: kept,
        };
        table.by_handle.insert(handle, opened);
        table.by_content.insert(content, handle);
        handle
    }

    /// What a handle stands for.
    pub fn get(&self, handle: Handle) -> Result<OpenFile, Errno> {
        let table = self.0.lock();
        let opened = table.by_handle.get(&handle).ok_or(Errno::BADF)?;
        Ok(Arc::clone(&opened.file))
    }

    /// Closes a content once.
    pub fn close(&self, handle: Handle) {
        let mut table = self.0.lock();
        let Some(opened) = table.by_handle.get_mut(&handle) else {
            return;
        };
        opened.opens -= 1;
        if opened.opens == 0
            && let Some(closed) = table.by_handle.remove(&handle)
        {
            table.by_content.remove(&closed.content);
        }
    }

    /// Opens a directory; `entry` is a node in it that was looked up for that.
    pub fn open_directory(&self, entry: NodeId, kept: Option<OpenSnapshot>) -> Handle {
        let mut table = self.0.lock();
        table.last += 1;
        let handle = Handle(table.last);
        let opened = OpenDirectory { entry, _kept: kept };
        table.directories.insert(handle, opened);
        handle
    }

    /// Closes a directory. The node that is to be forgotten once.
    pub fn close_directory(&self, handle: Handle) -> Option<NodeId> {
        let closed = self.0.lock().directories.remove(&handle)?;
        Some(closed.entry)
    }
}
