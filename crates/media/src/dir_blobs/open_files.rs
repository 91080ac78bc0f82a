//! Files kept open for reading.
//!
//! Invariant: after [`OpenFiles::forget`] no reader gets a file that had the name before. Called by
//! `dir_blobs`.

use crate::{DiskFile, MediaError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Open files kept for reading.
const OPEN_FILES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: HashMap<String, Arc<dyn DiskFile>>,
    /// Counts names forgotten: what was opened before the last one is not kept.
    forgotten: u64,
}

impl OpenFiles {
    /// The kept file, or a new one from `open`, which runs without the lock.
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

    /// The name leads elsewhere, or nowhere.
    pub(super) fn forget(&self, name: &str) {
        let mut kept = self.0.lock();
        kept.forgotten += 1;
        kept.files.remove(name);
    }
}
