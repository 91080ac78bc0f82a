//! Files that are open before a lane reads them: the walker asks how much of them is in memory, and
//! has the kernel read the rest meanwhile. [`super::handing`] opens them.
//!
//! Invariant: the number of open files and the bytes that are read ahead are bounded. The pages
//! that were in memory are known before any is read ahead.

use crate::filesystem::in_memory::InMemory;
use crate::filesystem::open_file::OpenFile;
use machine::PageRun;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Maximum number of files that stay open until they are read. The others are opened twice.
const FILES_MAX: usize = 400;
/// Maximum number of bytes that the kernel reads ahead of the lanes.
const BYTES_MAX: u64 = 32 << 20;

/// Counts what is open and read ahead in one run.
#[derive(Debug, Default)]
pub(super) struct Limits {
    files: AtomicUsize,
    bytes: AtomicU64,
}

/// See the module's head.
pub(super) struct KeptOpen {
    file: OpenFile,
    /// Its pages before they were read ahead; `None` if they were not.
    runs: Option<Vec<PageRun>>,
    share: Share,
}

/// Share of one file in the limits.
struct Share {
    limits: Arc<Limits>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.limits.files.fetch_sub(1, Ordering::Relaxed);
        self.limits.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl KeptOpen {
    /// Keeps a file open; `None` if too many are. Only one thread calls this.
    pub fn new(file: OpenFile, limits: &Arc<Limits>) -> Option<Self> {
        if limits.files.fetch_add(1, Ordering::Relaxed) >= FILES_MAX {
            limits.files.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let share = Share {
            limits: Arc::clone(limits),
            bytes: 0,
        };
        Some(Self {
            file,
            runs: None,
            share,
        })
    }

    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Returns the file, and its pages before they were read ahead.
    pub fn into_parts(self) -> (OpenFile, Option<Vec<PageRun>>) {
        (self.file, self.runs)
    }

    /// Returns true if the kernel reads the file ahead.
    pub fn is_read_ahead(&self) -> bool {
        self.runs.is_some()
    }

    /// Has the kernel read the parts of a short file that are not in memory.
    pub fn read_ahead(&mut self, in_memory: InMemory) {
        let InMemory::Part(share) = in_memory else {
            return;
        };
        let (limits, len) = (&self.share.limits, self.file.len());
        if limits.bytes.load(Ordering::Relaxed) + len > BYTES_MAX {
            return;
        }
        let all = 0..len;
        let runs = match share {
            0 => Ok(vec![machine::PageRun::missing(&all)]),
            _ => machine::runs(self.file.file(), &all),
        };
        // The lane that reads the file looks again.
        let Ok(runs) = runs else { return };
        limits.bytes.fetch_add(len, Ordering::Relaxed);
        self.share.bytes = len;
        for run in runs.iter().filter(|run| !run.cached) {
            // Only a hint.
            let _ = machine::fetch(self.file.file(), run.start, run.end);
        }
        self.runs = Some(runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::capture::Directory;

    #[test]
    fn files_and_bytes_are_bounded() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("file"), vec![1; 3 << 20]).unwrap();
        let directory = Directory::open(top.path()).unwrap();
        let limits = Arc::new(Limits::default());
        let open = || {
            let opened = directory.open_file(c"file").unwrap();
            let mut kept = KeptOpen::new(opened, &limits)?;
            kept.read_ahead(InMemory::Part(0));
            Some(kept)
        };
        let kept: Vec<_> = (0..500).map_while(|_| open()).collect();
        assert_eq!(kept.len(), FILES_MAX);
        let ahead = kept.iter().filter(|kept| kept.is_read_ahead());
        assert_eq!(ahead.count(), 10);
        for kept in kept {
            let (file, runs) = kept.into_parts();
            assert!(runs.is_none_or(|runs| runs == [PageRun::missing(&(0..file.len()))]));
        }
        assert!(open().is_some_and(|kept| kept.is_read_ahead()));
    }
}
