//! What a restore does with one name: the one place where a dry run and a real one decide.
//!
//! Invariant: pure: the answer depends on what is there and on the flags only, so that what was
//! planned is what is done unless the target changes meanwhile. The walk asks here.

use crate::filesystem::overwrite::{Existing, ExistingKind, Overwrite};
use format::tree::{Entry, EntryKind};

/// What is done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is there: it is made.
    Create,
    /// A directory is there and stays; it gets its metadata, and its contents are gone through.
    Enter,
    /// What is there goes, or is written into.
    Replace,
    /// What is there stays, as `--overwrite` says.
    Leave,
    /// A device, which `--no-devices` leaves out.
    Skip,
    /// It is not in the snapshot, and `--delete` removes it, with all that is in it.
    Remove,
    /// It cannot be restored.
    Refuse(Refusal),
}

/// Why a name cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A file is to go where a directory with something in it is.
    DirectoryInTheWay,
    /// A directory is to go where something else is, that `--overwrite never` leaves.
    FileInTheWay,
}

impl Refusal {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::DirectoryInTheWay => "a directory that is not empty is in the way",
            Self::FileInTheWay => "something else is in the way, and --overwrite says to leave it",
        }
    }
}

impl Action {
    /// As programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Enter => "enter",
            Self::Replace => "replace",
            Self::Leave => "leave",
            Self::Skip => "skip",
            Self::Remove => "remove",
            Self::Refuse(_) => "refuse",
        }
    }
}

/// Decides about an entry that is no directory. `holds_names` says of a directory that is there
/// whether something is in it.
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

/// Decides about a directory.
pub fn of_directory(overwrite: Overwrite, existing: Option<&Existing>) -> Action {
    match existing.map(|existing| existing.kind) {
        None => Action::Create,
        Some(ExistingKind::Directory) => Action::Enter,
        Some(_) if overwrite == Overwrite::Never => Action::Refuse(Refusal::FileInTheWay),
        Some(_) => Action::Replace,
    }
}
