//! The observer of a backup, a restore, an import or an export. The program's progress display
//! implements it.
//!
//! Invariant: these runs know no terminal and no signal. Through an [`Observer`], from many
//! threads, they count their work, report warnings and ask whether to stop.

use crate::filesystem::PathError;
use crate::partial::DamagedRanges;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use store::StoreError;

/// See the module's head. All methods return at once, except for those of the rate limit.
pub trait Observer: Sync {
    /// Returns true if the run should stop. Runs ask between bounded steps.
    fn stop_requested(&self) -> bool;

    /// Adds newly found work to the total.
    fn add_total(&self, files: u64, bytes: u64);

    /// The total is complete.
    fn totals_known(&self);

    /// A walk ahead of the run has found this total.
    fn expect(&self, files: u64, bytes: u64);

    /// Files were completed.
    fn add_files(&self, files: u64);

    /// Bytes were completed.
    fn add_bytes(&self, bytes: u64);

    /// The path in progress.
    fn set_current(&self, path: &[u8]);

    /// Reports a failure; the run continues.
    fn warning(&self, warning: &Warning<'_>);

    /// Bytes were read: of files that are stored, or of stored data. Waits for the rate limit of
    /// the run, and no longer than until a stop is requested. Default: there is no limit.
    fn has_read(&self, _bytes: u64) {}

    /// So many bytes were stored since the run began. Waits like [`Observer::has_read`].
    fn has_stored(&self, _total_bytes: u64) {}

    /// Returns true if [`Observer::change`] wants such names. Default: none.
    fn wants(&self, _change: FileChange) -> bool {
        false
    }

    /// Reports what a backup did with a file.
    fn change(&self, _change: FileChange, _path: &Path) {}

    /// A file could not be read or written; the run continues.
    fn path_failed(&self, error: &PathError) {
        self.warning(&Warning::Path(error));
    }
}

/// How a file compares with the parent snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// The parent does not have it: it is stored.
    New,
    /// The parent has it in another state, or has lost a part of it: it is stored.
    Changed,
    /// It is taken over from the parent.
    Unchanged,
    /// It is not stored, because the user has excluded it, or because it is this program's. Of a
    /// directory nothing is.
    Excluded,
}

impl FileChange {
    /// The name in lists and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Excluded => "excluded",
        }
    }

    /// Returns the change of a file that is stored.
    pub(crate) fn of_stored(is_known: bool) -> Self {
        match is_known {
            true => Self::Changed,
            false => Self::New,
        }
    }
}

/// Reports a name to an observer that wants it.
pub(crate) fn tell<P: AsRef<Path>>(
    observer: &dyn Observer,
    change: FileChange,
    path: impl FnOnce() -> P,
) {
    if observer.wants(change) {
        observer.change(change, path().as_ref());
    }
}

/// A failure in a run that continues.
#[derive(Clone, Copy, Debug)]
pub enum Warning<'w> {
    /// A file could not be read or written.
    Path(&'w PathError),
    /// A file changed while it was read.
    Changed(&'w Path),
    /// A name was not restored, because the pool is damaged.
    Damaged {
        /// The path in the target.
        path: &'w Path,
        /// State of the name in the target.
        outcome: &'static str,
        /// The damage.
        error: &'w StoreError,
    },
    /// A file was restored without its damaged parts.
    Partial {
        /// The path in the target.
        path: &'w Path,
        /// The missing ranges.
        lost: &'w DamagedRanges,
    },
    /// Many paths failed alike.
    Alike {
        /// The first of them.
        first: &'w PathError,
        /// The others.
        others: &'w [&'w PathError],
    },
    /// Files with several names have become several files: the target has no hard links.
    LinksCopied {
        /// Number of names that are files of their own now.
        names: u64,
    },
    /// Files and directories did not get their owners, for lack of privileges.
    OwnersNotSet {
        /// Number of entries.
        entries: u64,
    },
}

impl fmt::Display for Warning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(error) => error.fmt(f),
            Self::Changed(path) => write!(f, "{} changed while it was read", path.display()),
            Self::Damaged {
                path,
                outcome,
                error,
            } => write!(
                f,
                "{} is damaged in the pool ({outcome}): {error}",
                path.display()
            ),
            Self::Partial { path, lost } => write!(
                f,
                "{} is restored in part; {} are damaged and read as zeroes: {}",
                path.display(),
                units::count(lost.bytes(), "byte"),
                lost.text(),
            ),
            Self::Alike { first, others } => {
                write!(f, "{first} (and {} more like this)", others.len())
            }
            Self::LinksCopied { names } => {
                let (names, them) = (
                    units::count(*names, "hard link"),
                    match names {
                        1 => "a copy",
                        _ => "copies",
                    },
                );
                write!(f, "the target has no hard links: {names} became {them}")
            }
            Self::OwnersNotSet { entries } => {
                let entries = units::count(*entries, "entry");
                write!(f, "cannot set the owners of {entries}: not running as root")
            }
        }
    }
}

/// Counts the warnings of one run and passes everything on.
pub(crate) struct WarningCounter<'o> {
    observer: &'o dyn Observer,
    changed: AtomicU64,
    others: AtomicU64,
}

impl<'o> WarningCounter<'o> {
    /// Starts at zero.
    pub fn new(observer: &'o dyn Observer) -> Self {
        Self {
            observer,
            changed: AtomicU64::new(0),
            others: AtomicU64::new(0),
        }
    }

    /// Files that changed while they were read.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// All other warnings.
    pub fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }
}

impl Observer for WarningCounter<'_> {
    fn stop_requested(&self) -> bool {
        self.observer.stop_requested()
    }

    fn add_total(&self, files: u64, bytes: u64) {
        self.observer.add_total(files, bytes);
    }

    fn totals_known(&self) {
        self.observer.totals_known();
    }

    fn expect(&self, files: u64, bytes: u64) {
        self.observer.expect(files, bytes);
    }

    fn add_files(&self, files: u64) {
        self.observer.add_files(files);
    }

    fn add_bytes(&self, bytes: u64) {
        self.observer.add_bytes(bytes);
    }

    fn set_current(&self, path: &[u8]) {
        self.observer.set_current(path);
    }

    fn has_read(&self, bytes: u64) {
        self.observer.has_read(bytes);
    }

    fn wants(&self, change: FileChange) -> bool {
        self.observer.wants(change)
    }

    fn change(&self, change: FileChange, path: &Path) {
        self.observer.change(change, path);
    }

    fn has_stored(&self, total_bytes: u64) {
        self.observer.has_stored(total_bytes);
    }

    fn warning(&self, warning: &Warning<'_>) {
        let count = match warning {
            Warning::Changed(_) => &self.changed,
            _ => &self.others,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.observer.warning(warning);
    }
}
