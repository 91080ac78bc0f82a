//! Directories of the target whose contents are incomplete, and first names of files with hard
//! links. The walk and the workers use them.
//!
//! Invariant: a directory gets its metadata exactly once, after its last entry.

use crate::filesystem::apply::{Identity, TargetDirectory};
use crate::filesystem::metadata::{Privileges, Shortfalls};
use format::tree::Entry;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module's head.
pub(super) struct PendingDirectory {
    /// The open directory; `None` in a dry run if it does not exist.
    pub target: Option<Arc<TargetDirectory>>,
    entry: Option<Entry>,
    parent: Option<Arc<Self>>,
    /// Number of incomplete entries, plus one while the walk is in it.
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

    /// Adds an incomplete entry.
    pub fn one_more(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes an entry. The last one gives the directory its metadata, unless this is a dry run.
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

/// The first name of a file with hard links.
pub(super) struct FirstName {
    /// Its directory.
    pub directory: Arc<TargetDirectory>,
    /// Its name there.
    pub name: CString,
    /// Identity of the file, once it exists.
    pub made: OnceLock<Identity>,
}

/// A further name of a file that is restored under another one.
pub(super) struct HardLink {
    pub parent: Arc<PendingDirectory>,
    pub target: Arc<TargetDirectory>,
    pub name: CString,
    pub from: Arc<FirstName>,
    pub replaces: bool,
    /// For a copy, if the target has no hard links.
    pub entry: Box<Entry>,
}
