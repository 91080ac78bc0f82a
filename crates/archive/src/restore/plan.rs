//! What to restore, and how.
//!
//! Invariant: checked before it is made; nothing in a restore changes it. Made by the command; the walk
//! and the comparison read it.

use super::decide::Action;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::Privileges;
use crate::filesystem::overwrite::{Overwrite, Placement};
use crate::selection::SnapshotSelection;
use format::recipe::ObjectRoot;
use format::tree::Entry;
use std::path::Path;
use std::sync::Arc;

/// What to restore, and how.
pub struct RestorePlan<'a> {
    /// Directory object to restore the contents of.
    pub root: ObjectRoot,
    /// Metadata of that directory, given to the target itself; none leaves the target's alone.
    pub root_entry: Option<Entry>,
    /// Where to; `None` only in a dry run, when it is not there yet.
    pub top: Option<Arc<TargetDirectory>>,
    /// What it is called.
    pub target: &'a Path,
    /// Which entries are meant.
    pub selection: &'a SnapshotSelection,
    /// Remove what is in restored directories and not in the snapshot.
    pub delete: bool,
    /// Which existing files are written again.
    pub overwrite: Overwrite,
    /// How.
    pub placement: Placement,
    /// Make holes of all runs of zeroes, not only of those that were holes.
    pub all_sparse: bool,
    /// Restore what is left of damaged files.
    pub partial: bool,
    /// Which metadata files get.
    pub privileges: Privileges,
    /// Restore devices.
    pub devices: bool,
    /// Threads that write files.
    pub workers: usize,
    /// Change nothing, only count.
    pub dry_run: bool,
    /// Hears what is decided about each name.
    pub tell: &'a dyn Fn(Action, &Path),
}
