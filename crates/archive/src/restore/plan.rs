//! Parameters of a restore. The command creates them; the walk and the verification read them.
//!
//! Invariant: they were checked before, and a restore does not change them.

use super::decide::Action;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::Privileges;
use crate::filesystem::overwrite::{Overwrite, Placement};
use crate::owners::OwnerMap;
use crate::selection::SnapshotSelection;
use format::recipe::ObjectRoot;
use format::tree::Entry;
use std::path::Path;
use std::sync::Arc;

/// Parameters of a restore.
pub struct RestorePlan<'a> {
    /// Directory object whose contents are restored.
    pub root: ObjectRoot,
    /// Metadata of that directory, for the target itself; `None` leaves the target's unchanged.
    pub root_entry: Option<Entry>,
    /// The target; `None` only in a dry run if it does not exist.
    pub top: Option<Arc<TargetDirectory>>,
    /// Path of the target.
    pub target: &'a Path,
    /// Paths that the backup was given, from `root`, with a leading `/`. A link of the target on
    /// the way to one of them stays a link.
    pub given: &'a [Vec<u8>],
    /// Selected entries.
    pub selection: &'a SnapshotSelection,
    /// Remove names from restored directories that the snapshot does not have.
    pub delete: bool,
    /// Selects existing files to write again.
    pub overwrite: Overwrite,
    /// How existing files are written again.
    pub placement: Placement,
    /// Make holes of all runs of zeroes, not only of former holes.
    pub all_sparse: bool,
    /// Restore the intact parts of damaged files.
    pub partial: bool,
    /// Selects the metadata to set.
    pub privileges: Privileges,
    /// Owners and groups of this machine for those of the snapshot.
    pub owners: &'a OwnerMap,
    /// Restore devices.
    pub devices: bool,
    /// Number of threads that write files.
    pub workers: usize,
    /// Change nothing, only count.
    pub dry_run: bool,
    /// Called with the decision about each name.
    pub tell: &'a dyn Fn(Action, &Path),
}

impl RestorePlan<'_> {
    /// Gives entries the owners that they get on this machine.
    pub(super) fn with_owners(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        entries.iter_mut().for_each(|e| self.owners.apply(e));
        entries
    }

    /// Returns true if the directory `path` (from `root`, with a leading `/`) leads to a path that
    /// the backup was given, or is one.
    pub(super) fn leads_to_given(&self, path: &[u8]) -> bool {
        self.given.iter().any(|given| {
            let rest = given.strip_prefix(path);
            rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        })
    }
}
