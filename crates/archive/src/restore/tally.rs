//! Result of a restore, and failures of single names. The walk and the workers count here.
//!
//! Invariant: a name is counted once: restored, restored in part, left, lost to damage, or failed.
//! Everything below a directory that could not be made has failed too.

use crate::filesystem::PathError;
use crate::observer::{Observer, Warning};
use crate::partial::DamagedRanges;
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use store::StoreError;

/// A full target is tried this often: smaller files may still fit.
const WITHOUT_SPACE_MAX: u64 = 16;

/// Returns true if a disk or a quota is full.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Result of a restore; of a dry run: the result if nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// Files, links, devices that were restored, in part or completely.
    pub files: u64,
    /// Directories that were created or existed.
    pub directories: u64,
    /// Bytes of restored files.
    pub bytes: u64,
    /// Selected names, without directories.
    pub files_meant: u64,
    /// Bytes of the files among them.
    pub bytes_meant: u64,
    /// Restored names that replaced something else.
    pub replaced: u64,
    /// Names that were removed because the snapshot does not have them.
    pub deleted: u64,
    /// Names left unchanged because of the overwrite mode.
    pub skipped: u64,
    /// Devices that were left out on request.
    pub devices_skipped: u64,
    /// Files restored without their damaged parts.
    pub partial: u64,
    /// Names that were not restored because of damage.
    pub damaged: u64,
    /// Names that were not restored, or not removed, because the target refused.
    pub failed: u64,
    /// Bytes of the files among them.
    pub bytes_failed: u64,
    /// The target is full: after some failures nothing more was written.
    pub stopped_full: bool,
    /// Selected entries of the snapshot, with directories.
    pub selected: u64,
    /// Further names of files that were restored as copies, because the target has no hard links.
    pub links_copied: u64,
    /// Other reported failures: attributes, owners.
    pub warnings: u64,
}

/// Shared by the walk and the workers.
#[derive(Default)]
pub(super) struct Tally {
    state: Mutex<TallyState>,
}

#[derive(Default)]
struct TallyState {
    outcome: RestoreOutcome,
    fatal: Option<StoreError>,
    /// Names that failed for lack of space.
    without_space: u64,
}

impl Tally {
    /// Changes a count.
    pub fn count(&self, count: impl FnOnce(&mut RestoreOutcome)) {
        count(&mut self.state.lock().outcome);
    }

    /// Counts a restored file, link or device.
    pub fn restored(&self, len: u64, replaced: bool) {
        self.count(|outcome| {
            outcome.files += 1;
            outcome.bytes += len;
            outcome.replaced += u64::from(replaced);
        });
    }

    /// Handles an error of the pool about one name: damage is reported and counted, other errors
    /// end the run. `outcome`: state of the name in the target.
    pub fn lost(
        &self,
        path: &Path,
        outcome: &'static str,
        error: StoreError,
        observer: &dyn Observer,
    ) {
        let mut state = self.state.lock();
        if !error.is_corruption() {
            state.fatal.get_or_insert(error);
            return;
        }
        state.outcome.damaged += 1;
        observer.warning(&Warning::Damaged {
            path,
            outcome,
            error: &error,
        });
    }

    /// Reports a file that was restored in part.
    pub fn partial(&self, path: &Path, lost: &DamagedRanges, observer: &dyn Observer) {
        let mut state = self.state.lock();
        state.outcome.partial += 1;
        observer.warning(&Warning::Partial { path, lost });
    }

    /// Reports a name that the target refused, or that could not be removed. `len`: bytes of the
    /// file that is missing.
    pub fn failed(&self, error: &PathError, len: u64, observer: &dyn Observer) {
        let mut state = self.state.lock();
        state.outcome.failed += 1;
        state.outcome.bytes_failed += len;
        if is_full(&error.source) {
            state.without_space += 1;
            state.outcome.stopped_full = state.without_space >= WITHOUT_SPACE_MAX;
        }
        observer.path_failed(error);
    }

    /// Counts a file that is not tried: its directory could not be made, or the target is full.
    pub fn not_tried(&self, len: u64) {
        self.count(|outcome| {
            outcome.failed += 1;
            outcome.bytes_failed += len;
        });
    }

    /// Returns true if nothing more is to be written, because the target is full.
    pub fn is_full(&self) -> bool {
        self.state.lock().outcome.stopped_full
    }

    /// Names that were copied, because the target has no hard links.
    pub fn links_copied(&self) -> u64 {
        self.state.lock().outcome.links_copied
    }

    /// Returns true if the run cannot continue.
    pub fn is_fatal(&self) -> bool {
        self.state.lock().fatal.is_some()
    }

    /// Returns the result with this number of other warnings, or the error that ended the run.
    pub fn finish(self, warnings: u64) -> Result<RestoreOutcome, StoreError> {
        let state = self.state.into_inner();
        let outcome = RestoreOutcome {
            warnings,
            ..state.outcome
        };
        state.fatal.map_or(Ok(outcome), Err)
    }
}
