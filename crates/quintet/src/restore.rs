//! Restoring file trees: walk here, write files on all cores.
//!
//! Invariant: what is damaged or cannot be written is reported by name and left out, the rest is
//! restored; a directory gets its metadata after everything in it. Called by the restore command.

mod files;
mod tree;
mod verify;

pub use tree::{RestoreError, RestoreOutcome, RestorePlan, restore_tree};
pub use verify::verify_tree;

use crate::filesystem::PathError;
use crate::progress::Progress;
use std::path::Path;
use std::sync::Mutex;
use store::StoreError;

/// What went wrong with single names; the run goes on.
#[derive(Default)]
pub struct Trouble {
    state: Mutex<TroubleState>,
}

#[derive(Default)]
struct TroubleState {
    damaged: u64,
    fatal: Option<StoreError>,
}

impl Trouble {
    /// Reports an error of the pool about one name: damage is reported and counted, other errors
    /// end the run.
    pub fn store(&self, path: &Path, error: StoreError, progress: &Progress) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if error.is_corruption() {
            state.damaged += 1;
            progress.warn(format_args!(
                "{}: damaged, not restored: {error}",
                path.display()
            ));
        } else {
            state.fatal.get_or_insert(error);
        }
    }

    /// Reports an error of the target about one name.
    pub fn path(&self, error: &PathError, progress: &Progress) {
        progress.warn_path(error);
    }

    /// True when the run cannot go on.
    pub fn is_fatal(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .fatal
            .is_some()
    }

    /// Names that damage reached, or the error that ended the run.
    pub fn finish(self) -> Result<u64, StoreError> {
        let state = self.state.into_inner().unwrap_or_else(|e| e.into_inner());
        state.fatal.map_or(Ok(state.damaged), Err)
    }
}
