//! Decides what a restore does with one name, for dry runs and real ones. The walk calls this.
//!
//! Invariant: pure: the decision depends only on what exists and on the flags. Unless the target
//! changes meanwhile, a restore does what its dry run has shown.

use crate::filesystem::overwrite::{Existing, ExistingKind, Overwrite};
use format::tree::{Entry, EntryKind};

/// Action on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The name is free: create the entry.
    Create,
    /// A directory exists and stays; it gets its metadata, and its contents are visited.
    Enter,
    /// A link on the way to a path of the backup stays; what it leads to is entered.
    Follow,
    /// The existing file is replaced or rewritten.
    Replace,
    /// The existing file stays, according to `--overwrite`.
    Leave,
    /// A device, which `--no-devices` leaves out.
    Skip,
    /// The snapshot does not have it, and `--delete` removes it with its contents.
    Remove,
    /// It cannot be restored.
    Refuse(Refusal),
}

/// Reason why a name cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A directory that is not empty exists in place of a file.
    DirectoryInTheWay,
    /// Another file exists in place of a directory, and `--overwrite never` keeps it.
    FileInTheWay,
}

impl Refusal {
    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::DirectoryInTheWay => "a directory with this name exists and is not empty",
            Self::FileInTheWay => "this name exists, and --overwrite never keeps it",
        }
    }
}

impl Action {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Enter => "enter",
            Self::Follow => "follow",
            Self::Replace => "replace",
            Self::Leave => "leave",
            Self::Skip => "skip",
            Self::Remove => "remove",
            Self::Refuse(_) => "refuse",
        }
    }
}

/// Decides about an entry that is no directory. `holds_names`: whether an existing directory has
/// entries.
pub fn of_file(
    overwrite: Overwrite,
    devices: bool,
    entry: &Entry,
    existing: Option<&Existing>,
    holds_names: impl FnOnce() -> bool,
) -> Action {
    let (len, is_device) = match &entry.kind {
        EntryKind::File { content, .. } => (content.len, false),
        EntryKind::BlockDevice { .. } | EntryKind::CharDevice { .. } => (0, true),
        _ => (0, false),
    };
    let Some(existing) = existing.filter(|_| !is_device || devices) else {
        return match is_device && !devices {
            true => Action::Skip,
            false => Action::Create,
        };
    };
    if !overwrite.writes_over(existing, entry, len) {
        return Action::Leave;
    }
    match existing.kind == ExistingKind::Directory && holds_names() {
        true => Action::Refuse(Refusal::DirectoryInTheWay),
        false => Action::Replace,
    }
}

/// Decides about a directory. `is_given`: it is on the way to a path that the backup was given, so
/// the backup has followed links there.
pub fn of_directory(overwrite: Overwrite, existing: Option<&Existing>, is_given: bool) -> Action {
    match existing.map(|existing| existing.kind) {
        None => Action::Create,
        Some(ExistingKind::Directory) => Action::Enter,
        Some(ExistingKind::Link) if is_given => Action::Follow,
        Some(_) if overwrite == Overwrite::Never => Action::Refuse(Refusal::FileInTheWay),
        Some(_) => Action::Replace,
    }
}
