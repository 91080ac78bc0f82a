//! Keeps files open for reading. `dir_blobs` calls this.
//!
//! Invariant: after [`OpenFiles::forget`] no reader gets a file that had the name before.

use crate::{DiskFile, MediaError};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of files kept open: the containers of 256 GiB. Opening one costs as much as a
/// short read.
const OPEN_FILES_MAX: u64 = 4096;
/// Of the files that the process may have open, one in this many is kept here. Each has up to three
/// handles.
const PART_OF_LIMIT: u64 = 16;

#[derive(Default)]
pub(super) struct OpenFiles(Mutex<OpenFileCache>);

struct OpenFileCache {
    files: HashMap<String, Arc<dyn DiskFile>>,
    /// Their names, the oldest first, perhaps with forgotten ones.
    order: VecDeque<String>,
    files_max: usize,
    /// Number of forgotten names. A file that was opened before the last one is not kept.
    forgotten: u64,
}

impl Default for OpenFileCache {
    fn default() -> Self {
        let may_have = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self {
            files: HashMap::new(),
            order: VecDeque::new(),
            files_max: (may_have / PART_OF_LIMIT).clamp(PART_OF_LIMIT, OPEN_FILES_MAX) as usize,
            forgotten: 0,
        }
    }
}

impl OpenFileCache {
    fn insert(&mut self, name: &str, file: &Arc<dyn DiskFile>) {
        if self
            .files
            .insert(name.to_owned(), Arc::clone(file))
            .is_some()
        {
            return;
        }
        self.order.push_back(name.to_owned());
        while self.order.len() > self.files_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
    }
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
            kept.insert(name, &file);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, LocalDisk};

    #[test]
    fn the_oldest_are_closed_and_forgotten_ones_count_for_a_while() {
        let dir = std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| ".".to_owned());
        let disk = LocalDisk::new(format!("{dir}/open-files-{}", std::process::id()));
        disk.create_top().expect("top");
        let open = OpenFiles::default();
        open.0.lock().files_max = 3;
        let is_opened = |name: &str| {
            let mut is_opened = false;
            let file = open.get(name, || {
                is_opened = true;
                disk.open(name, true)
            });
            file.expect("a file");
            is_opened
        };
        assert!(["a", "b", "c"].into_iter().all(is_opened));
        assert!(!is_opened("a"));
        assert!(is_opened("d"), "and the oldest is closed");
        assert!(is_opened("a"));
        open.forget("c");
        assert!(is_opened("c"));
        let kept = open.0.lock();
        assert!(kept.files.len() <= 3 && kept.order.len() <= 3);
        drop(kept);
        std::fs::remove_dir_all(disk.top()).expect("remove");
    }
}
