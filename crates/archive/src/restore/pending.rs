//! Directories of the target whose contents are still coming, and names of files with several.

use crate::filesystem::apply::{Identity, TargetDirectory};
use crate::filesystem::metadata::{Privileges, Shortfalls};
use format::tree::Entry;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module's head.
pub(super) struct PendingDirectory {
    /// Open; `None` in a dry run where it is not there yet.
    pub target: Option<Arc<TargetDirectory>>,
    entry: Option<Entry>,
    parent: Option<Arc<Self>>,
    /// Entries not done yet, plus one while the walk is in it.
    missing: AtomicUsize,
}

impl PendingDirectory {
    pub fn new(
        target: Option<Arc<TargetDirectory>>,
        entry: Option<Entry>,
        parent: Option<Arc<Self>>,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.one_more();
        }
        Arc::new(Self {
            target,
            entry,
            parent,
            missing: AtomicUsize::new(1),
        })
    }

    /// One more entry has to be done.
    pub fn one_more(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// One entry is done; the last one gives the directory its metadata, unless this is a dry run.
    pub fn one_less(
        at: Arc<Self>,
        dry_run: bool,
        privileges: Privileges,
        shortfalls: &mut Shortfalls,
    ) {
        let mut at = at;
        while at.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let (Some(entry), Some(target), false) = (&at.entry, &at.target, dry_run) {
                target.finish(entry, privileges, shortfalls);
            }
            match &at.parent {
                Some(parent) => at = Arc::clone(parent),
                None => return,
            }
        }
    }
}

/// The first name of a file that has several.
pub(super) struct FirstName {
    /// Where it is.
    pub directory: Arc<TargetDirectory>,
    /// What it is called there.
    pub name: CString,
    /// Which file it is, once it is there.
    pub made: OnceLock<Identity>,
}

/// A further name of a file that is restored under another one.
pub(super) struct HardLink {
    pub parent: Arc<PendingDirectory>,
    pub target: Arc<TargetDirectory>,
    pub name: CString,
    pub from: Arc<FirstName>,
    pub replaces: bool,
}
