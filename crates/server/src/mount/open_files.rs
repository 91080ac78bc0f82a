//! Open files and directories of snapshots. `snapshot_files` calls this.
//!
//! Invariant: a content that is open several times in one snapshot has one reader, so that decoded
//! nodes of its recipe are shared. Of several paths of one content, the one that is read first says
//! what it is. An open file or directory holds its snapshot against gc. Handles are not reused.

use format::recipe::ObjectRoot;
use fuse::{Errno, Handle, NodeId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use store::{ImageVolume, OpenSnapshot, Reader};
use units::SnapshotId;
use volume::Checked;

/// A reader of an open content.
pub(super) struct OpenFile {
    pub volume: Checked<ImageVolume>,
    /// Path from the root of its snapshot, once a read needs it.
    pub path: OnceLock<Vec<u8>>,
}

/// A content and the snapshot that is held for it.
type Content = (ObjectRoot, Option<SnapshotId>);

struct Opened {
    file: Arc<OpenFile>,
    content: Content,
    opens: u64,
    _kept: Option<OpenSnapshot>,
}

/// An open directory.
struct OpenDirectory {
    /// An entry of the directory. Its look-up keeps the directory's place.
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

/// All open files and directories.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Table>);

impl OpenFiles {
    /// Opens a content. `kept` holds its snapshot, if that is possible.
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
            file: Arc::new(OpenFile {
                volume: Checked::new(volume),
                path: OnceLock::new(),
            }),
            content,
            opens: 1,
            _kept: kept,
        };
        table.by_handle.insert(handle, opened);
        table.by_content.insert(content, handle);
        handle
    }

    /// Returns the reader of a handle.
    pub fn get(&self, handle: Handle) -> Result<Arc<OpenFile>, Errno> {
        let table = self.0.lock();
        let opened = table.by_handle.get(&handle).ok_or(Errno::BADF)?;
        Ok(Arc::clone(&opened.file))
    }

    /// Closes a content. The last close drops its reader and its hold.
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

    /// Opens a directory. `entry` is a node in it that the caller looked up for this.
    pub fn open_directory(&self, entry: NodeId, kept: Option<OpenSnapshot>) -> Handle {
        let mut table = self.0.lock();
        table.last += 1;
        let handle = Handle(table.last);
        let opened = OpenDirectory { entry, _kept: kept };
        table.directories.insert(handle, opened);
        handle
    }

    /// Closes a directory. Returns the node whose look-up the caller must give back.
    pub fn close_directory(&self, handle: Handle) -> Option<NodeId> {
        let closed = self.0.lock().directories.remove(&handle)?;
        Some(closed.entry)
    }
}
