//! One restore from begin to end: the walk, its workers, and the links that come last.

use super::files::{FileJob, Shared};
use super::pending::{HardLink, PendingDirectory};
use super::plan::RestorePlan;
use super::tally::{RestoreOutcome, Tally};
use super::walk::Walk;
use crate::filesystem::PathError;
use crate::filesystem::metadata::Shortfalls;
use crate::progress::Progress;
use std::io;
use store::{Reader, StoreError, StoreErrorKind};

/// Files that may wait for a worker.
const QUEUE_MAX: usize = 256;

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
#[derive(Debug)]
pub enum RestoreError {
    /// The target as a whole.
    Target(PathError),
    /// The pool.
    Pool(StoreError),
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Target(e) => e.fmt(f),
            Self::Pool(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for RestoreError {}
