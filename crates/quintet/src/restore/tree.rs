//! One restore from begin to end: the walk, its workers, and the links that come last.

use super::decide::Action;
use super::files::{FileJob, Shared};
use super::pending::{HardLink, PendingDirectory};
use super::tally::{RestoreOutcome, Tally};
use super::walk::Walk;
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::{Privileges, Shortfalls};
use crate::filesystem::overwrite::{Overwrite, Placement};
use crate::progress::Progress;
use crate::selection::SnapshotSelection;
use format::recipe::ObjectRoot;
use format::tree::Entry;
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::{Reader, StoreError, StoreErrorKind};

/// Files that may wait for a worker.
const QUEUE_MAX: usize = 256;

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

/// Restores the contents of `plan.root` into the target.
pub fn restore_tree(
    reader: &Reader,
    plan: &RestorePlan<'_>,
    progress: &Progress,
) -> Result<RestoreOutcome, RestoreError> {
    let tally = Tally::default();
    let shared = Shared {
        reader,
        progress,
        tally: &tally,
        privileges: plan.privileges,
        placement: plan.placement,
        all_sparse: plan.all_sparse,
        partial: plan.partial,
    };
    let before = progress.warnings();
    let entries = reader.directory(&plan.root).map_err(RestoreError::Pool)?;
    let (jobs, queue) = crossbeam_channel::bounded::<FileJob>(QUEUE_MAX);
    let mut shortfalls = std::thread::scope(|scope| {
        let workers = if plan.dry_run { 0 } else { plan.workers.max(1) };
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let (queue, shared) = (queue.clone(), &shared);
                scope.spawn(move || work(queue, shared))
            })
            .collect();
        let top = PendingDirectory::new(plan.top.clone(), plan.root_entry.clone(), None);
        let mut walk = Walk::new(plan, &shared, jobs);
        walk.run(&top, entries);
        progress.totals_known();
        let (links, mut shortfalls) = walk.finish();
        for worker in workers {
            if let Ok(theirs) = worker.join() {
                shortfalls.absorb(theirs);
            }
        }
        // Every first name is there now; directories with links were kept waiting for them.
        for link in links {
            add_name(link, &shared, &mut shortfalls);
        }
        PendingDirectory::one_less(top, plan.dry_run, plan.privileges, &mut shortfalls);
        shortfalls
    });
    for warning in shortfalls.warnings.drain(..) {
        progress.warn_path(&warning);
    }
    if shortfalls.owners_not_set > 0 {
        let count = shortfalls.owners_not_set;
        progress.warn(format_args!(
            "owners of {count} entries not set: not running as root"
        ));
    }
    let warnings = progress.warnings() - before;
    let outcome = tally.finish(warnings).map_err(RestoreError::Pool)?;
    if progress.interrupt().requested() {
        return Err(RestoreError::Pool(StoreError::new(
            StoreErrorKind::Interrupted,
            "",
        )));
    }
    Ok(outcome)
}

fn work(queue: crossbeam_channel::Receiver<FileJob>, shared: &Shared<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    for job in queue {
        if !shared.tally.is_fatal() && !shared.progress.interrupt().requested() {
            job.run(shared, &mut shortfalls);
        }
    }
    shortfalls
}

fn add_name(link: HardLink, shared: &Shared<'_>, shortfalls: &mut Shortfalls) {
    let HardLink {
        parent,
        target,
        name,
        from,
        replaces,
    } = link;
    let linked = match from.made.get() {
        Some(made) => target.link(&name, &from.directory, &from.name, *made),
        // The name may still lead to something older.
        None => {
            let first = from.directory.path_of(&from.name);
            let why = format!("its first name {} was not restored", first.display());
            let path = target.path_of(&name);
            Err(PathError::new(
                "make hard link",
                path,
                io::Error::other(why),
            ))
        }
    };
    match linked {
        Ok(()) => shared.tally.restored(0, replaces),
        Err(e) => shared.tally.failed(&e, shared.progress),
    }
    shared.progress.add_files(1);
    PendingDirectory::one_less(parent, false, shared.privileges, shortfalls);
}

/// Why a restore could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The target as a whole.
    #[error("{0}")]
    Target(PathError),
    /// The pool.
    #[error("{0}")]
    Pool(StoreError),
}
