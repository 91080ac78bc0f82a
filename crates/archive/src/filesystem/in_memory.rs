//! How much of the source files is in memory before a backup reads them, and what it did about it.
//! The backup's walker asks; [`super::cached_first`] counts.
//!
//! Invariant: asking is a hint. A system that does not answer makes a backup read in the order of
//! the tree and leave all pages where they are.

use super::open_file::OpenFile;
use machine::PAGE_BYTES;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Share of a file's pages that are in memory, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InMemory {
    /// Nothing.
    Unknown,
    /// Parts per million of its pages are in memory: fewer than all.
    Part(u32),
    /// Every page is in memory.
    All,
}

impl InMemory {
    /// Everything, in parts per million.
    pub const ALL: u32 = 1_000_000;

    /// The part of the file that is in memory, 0 if it is not known.
    pub fn share(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::Part(share) => share,
            Self::All => Self::ALL,
        }
    }

    fn of(cached_pages: u64, len: u64) -> Self {
        let pages = len.div_ceil(PAGE_BYTES);
        if cached_pages >= pages {
            return Self::All;
        }
        let share = u128::from(cached_pages) * u128::from(Self::ALL) / u128::from(pages);
        // A single page of a large file counts.
        let share = u32::try_from(share).unwrap_or(Self::ALL);
        Self::Part(share.max(u32::from(cached_pages > 0)))
    }
}

/// Why the system does not say which pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No `cachestat`.
    Kernel,
    /// The file belongs to another user.
    Permission,
    /// The file system has no pages of its own, or is memory itself.
    FileSystem,
    /// Another failure.
    Other,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "cachestat is missing: the kernel is older than Linux 6.5, or a filter of system calls (systemd before 257) hides it",
            Self::Permission => "only root and the owner of a file may ask",
            Self::FileSystem => "the file system keeps its files in memory, or is an overlay",
            Self::Other => "cachestat failed",
        })
    }
}

/// Pages that a backup found in memory, and dropped from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryOutcome {
    /// Files whose pages were asked about. Unchanged files are not.
    pub files_asked: u64,
    /// Of these, the files of which the system did not say it.
    pub files_unknown: u64,
    /// Why not, of the first.
    pub unknown: Option<Unknown>,
    /// Files that were read before an earlier one, because more of them was in memory.
    pub files_ahead: u64,
    /// Bytes that were in memory when their file was read.
    pub bytes_found: u64,
    /// Bytes that the backup brought into memory and dropped again.
    pub bytes_dropped: u64,
}

/// See the module's head. Many threads use it.
#[derive(Debug, Default)]
pub struct SourceMemory {
    asked: AtomicU64,
    unknown_files: AtomicU64,
    unknown: Mutex<Option<Unknown>>,
    kernel_lacks_it: AtomicBool,
    /// By device.
    tells: Mutex<BTreeMap<u64, bool>>,
    found: AtomicU64,
    dropped: AtomicU64,
}

impl SourceMemory {
    /// Asks how much of an open file is in memory. `device`: its device number.
    pub fn ask(&self, file: &OpenFile, device: u64) -> InMemory {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let why = match self.look(file, device) {
            Ok(known) => return known,
            Err(why) => why,
        };
        self.unknown_files.fetch_add(1, Ordering::Relaxed);
        self.unknown.lock().get_or_insert(why);
        InMemory::Unknown
    }

    /// Asks again, without counting. `known`: the last answer.
    pub fn ask_again(&self, file: &OpenFile, known: InMemory) -> InMemory {
        match known {
            InMemory::Unknown => known,
            InMemory::Part(_) | InMemory::All => machine::cached(file.file(), 0, 0)
                .map_or(known, |pages| InMemory::of(pages.cached, file.len())),
        }
    }

    fn look(&self, file: &OpenFile, device: u64) -> Result<InMemory, Unknown> {
        if self.kernel_lacks_it.load(Ordering::Relaxed) {
            return Err(Unknown::Kernel);
        }
        let mut tells = self.tells.lock();
        let tells = *tells
            .entry(device)
            .or_insert_with(|| machine::tells(file.file()).unwrap_or(false));
        if !tells {
            return Err(Unknown::FileSystem);
        }
        match machine::cached(file.file(), 0, 0) {
            Ok(pages) => Ok(InMemory::of(pages.cached, file.len())),
            Err(e) => Err(self.reason(&e)),
        }
    }

    fn reason(&self, error: &io::Error) -> Unknown {
        match error.kind() {
            io::ErrorKind::Unsupported => {
                self.kernel_lacks_it.store(true, Ordering::Relaxed);
                Unknown::Kernel
            }
            io::ErrorKind::PermissionDenied => Unknown::Permission,
            _ => Unknown::Other,
        }
    }

    /// Bytes were found in memory.
    pub fn add_found(&self, bytes: u64) {
        self.found.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes were dropped from memory.
    pub fn add_dropped(&self, bytes: u64) {
        self.dropped.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the counts.
    pub fn outcome(&self, files_ahead: u64) -> MemoryOutcome {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MemoryOutcome {
            files_asked: get(&self.asked),
            files_unknown: get(&self.unknown_files),
            unknown: *self.unknown.lock(),
            files_ahead,
            bytes_found: get(&self.found),
            bytes_dropped: get(&self.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_pages() {
        assert_eq!(InMemory::of(0, 0), InMemory::All);
        assert_eq!(InMemory::of(1, 1), InMemory::All);
        assert_eq!(InMemory::of(1, 4097), InMemory::Part(500_000));
        assert_eq!(InMemory::of(0, 4096), InMemory::Part(0));
        assert_eq!(InMemory::of(1, 1 << 50), InMemory::Part(1));
        // Large folios reach behind the end.
        assert_eq!(InMemory::of(16, 4097), InMemory::All);
    }

    #[test]
    fn a_kernel_without_it_is_asked_once() {
        let memory = SourceMemory::default();
        let missing = io::Error::from_raw_os_error(38);
        assert_eq!(memory.reason(&missing), Unknown::Kernel);
        let refused = io::Error::from_raw_os_error(1);
        assert_eq!(memory.reason(&refused), Unknown::Permission);
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("file"), b"x").unwrap();
        let opened = crate::filesystem::capture::Directory::open(top.path()).unwrap();
        let opened = opened.open_file(c"file").unwrap();
        assert_eq!(memory.ask(&opened, 1), InMemory::Unknown);
        let outcome = memory.outcome(0);
        assert_eq!((outcome.files_asked, outcome.files_unknown), (1, 1));
        assert_eq!(outcome.unknown, Some(Unknown::Kernel));
    }
}
