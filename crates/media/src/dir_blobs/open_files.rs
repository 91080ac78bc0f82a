//! Keeps files open for reading. `dir_blobs` calls this.
//!
//! Invariant: after [`OpenFiles::forget`] no reader gets a file that had the name before.

use crate::{DiskFile, MediaError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of files kept open.
const OPEN_FILES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: HashMap<String, Arc<dyn DiskFile>>,
    /// Number of forgotten names. A file that was opened before the last one is not kept.
    forgotten: u64,
}

impl OpenFiles {
    /// Returns the kept file, or a new one from `open`, which runs without the lock.
    pub(super) fn get(
        &self,
        name: &str,
        open: impl FnOnce() -> Result<Arc<dyn DiskFile>, MediaError>,
    ) -> Result<Arc<dyn DiskFile>, MediaError> {
        let kept = self.0.lock();
        if let Some(file) = kept.files.get(name) {
            return Ok(Arc::clone(file));
        }
        let forgotten = kept.forgotten;
        drop(kept);
        let file = open()?;
        let mut kept = self.0.lock();
        if kept.forgotten == forgotten {
            if kept.files.len() >= OPEN_FILES_MAX {
                kept.files.clear();
            }
            kept.files.insert(name.to_owned(), Arc::clone(&file));
        }
        Ok(file)
    }

    /// Returns the file if it is kept.
    pub(super) fn kept(&self, name: &str) -> Option<Arc<dyn DiskFile>> {
        self.0.lock().files.get(name).map(Arc::clone)
    }

    /// Forgets a name that now leads to another file, or to none.
    pub(super) fn forget(&self, name: &str) {
        let mut kept = self.0.lock();
        kept.forgotten += 1;
        kept.files.remove(name);
    }
}
