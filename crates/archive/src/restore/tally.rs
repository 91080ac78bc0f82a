//! What came of a restore, and what went wrong with single names.
//!
//! Invariant: a name is counted once: restored, restored in part, left, lost to damage, or failed.
//! The walk and the workers count here.

use super::partial::DamagedRanges;
use crate::filesystem::PathError;
use crate::observer::{Observer, Warning};
use parking_lot::Mutex;
use std::path::Path;
use store::StoreError;

/// What came of a restore; of a dry run: what would, if nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// Files, links, devices that were restored, in part or whole.
    pub files: u64,
    /// Directories that were made, or were there.
    pub directories: u64,
    /// Bytes of restored files.
    pub bytes: u64,
    /// Names that the snapshot and the patterns mean, but for directories.
    pub files_meant: u64,
    /// Bytes of the files among them.
    pub bytes_meant: u64,
    /// Of what was restored: names under which something else was.
    pub replaced: u64,
    /// Names that were removed because the snapshot does not have them.
    pub deleted: u64,
    /// Left alone because of the overwrite mode.
    pub skipped: u64,
    /// Devices that were left out because the user wanted it so.
    pub devices_skipped: u64,
    /// Of what was restored: files without their damaged parts.
    pub partial: u64,
    /// Names that were not restored because of damage.
    pub damaged: u64,
    /// Names that were not restored, or not removed, because the target did not allow it.
    pub failed: u64,
    /// What else could not be done, and was said: attributes, owners.
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
    /// Counts.
    pub fn count(&self, count: impl FnOnce(&mut RestoreOutcome)) {
        count(&mut self.state.lock().outcome);
    }

    /// A file, link or device is there.
    pub fn restored(&self, len: u64, replaced: bool) {
        self.count(|outcome| {
            outcome.files += 1;
            outcome.bytes += len;
            outcome.replaced += u64::from(replaced);
        });
    }

    /// Reports an error of the pool about one name: damage is reported and counted, other errors
    /// end the run. `outcome` is what became of the name.
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

    /// Reports a file of which only a part is there.
    pub fn partial(&self, path: &Path, lost: &DamagedRanges, observer: &dyn Observer) {
        let mut state = self.state.lock();
        state.outcome.partial += 1;
        observer.warning(&Warning::Partial { path, lost });
    }

    /// Reports a name that the target did not take, or that could not be removed.
    pub fn failed(&self, error: &PathError, observer: &dyn Observer) {
        let mut state = self.state.lock();
        state.outcome.failed += 1;
        observer.path_failed(error);
    }

    /// True when the run cannot go on.
    pub fn is_fatal(&self) -> bool {
        self.state.lock().fatal.is_some()
    }

    /// What came of it with so many other warnings, or the error that ended the run.
    pub fn finish(self, warnings: u64) -> Result<RestoreOutcome, StoreError> {
        let state = self.state.into_inner();
        let outcome = RestoreOutcome {
            warnings,
            ..state.outcome
        };
        state.fatal.map_or(Ok(outcome), Err)
    }
}
