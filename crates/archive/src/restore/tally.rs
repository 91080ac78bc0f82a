//! Result of a restore, and failures of single names. The walk and the workers count here.
//!
//! Invariant: a name is counted once: restored, restored in part, left, lost to damage, or failed.

use super::partial::DamagedRanges;
use crate::filesystem::PathError;
use crate::observer::{Observer, Warning};
use parking_lot::Mutex;
use std::path::Path;
use store::StoreError;

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

    /// Reports a name that the target refused, or that could not be removed.
    pub fn failed(&self, error: &PathError, observer: &dyn Observer) {
        let mut state = self.state.lock();
        state.outcome.failed += 1;
        observer.path_failed(error);
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
