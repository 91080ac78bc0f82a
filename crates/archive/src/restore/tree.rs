//! One restore from begin to end: the walk, its workers, and the hard links that come last. The
//! command `restore` calls this.
//!
//! Invariant: hard links are created after all workers have ended, so that every first name exists.

use super::files::{FileJob, Shared};
use super::pending::{HardLink, PendingDirectory};
use super::plan::RestorePlan;
use super::tally::{RestoreOutcome, Tally};
use super::walk::Walk;
use crate::error::ArchiveError;
use crate::filesystem::PathError;
use crate::filesystem::metadata::Shortfalls;
use crate::observer::{Observer, Warning};
use std::io;
use store::{Reader, StoreError, StoreErrorKind};

/// Maximum number of files that wait for a worker.
const QUEUE_MAX: usize = 256;

/// Restores the contents of `plan.root` into the target.
pub fn restore_tree(
    reader: &Reader,
    plan: &RestorePlan<'_>,
    observer: &dyn Observer,
) -> Result<RestoreOutcome, ArchiveError> {
    let tally = Tally::default();
    let shared = Shared {
        reader,
        observer,
        tally: &tally,
        privileges: plan.privileges,
        placement: plan.placement,
        all_sparse: plan.all_sparse,
        partial: plan.partial,
    };
    let entries = reader.directory(&plan.root)?;
    let (jobs, queue) = crossbeam_channel::bounded::<FileJob>(QUEUE_MAX);
    let shortfalls = std::thread::scope(|scope| {
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
        observer.totals_known();
        let (links, mut shortfalls) = walk.finish();
        for worker in workers {
            if let Ok(theirs) = worker.join() {
                shortfalls.absorb(theirs);
            }
        }
        // Every first name exists now. Directories with links have waited for them.
        for link in links {
            add_name(link, &shared, &mut shortfalls);
        }
        PendingDirectory::one_less(top, plan.dry_run, plan.privileges, &mut shortfalls);
        shortfalls
    });
    for warning in &shortfalls.warnings {
        observer.path_failed(warning);
    }
    let entries = shortfalls.owners_not_set;
    if entries > 0 {
        observer.warning(&Warning::OwnersNotSet { entries });
    }
    let warnings = shortfalls.warnings.len() as u64 + u64::from(entries > 0);
    let outcome = tally.finish(warnings)?;
    if observer.stop_requested() {
        return Err(StoreError::new(StoreErrorKind::Interrupted, "").into());
    }
    Ok(outcome)
}

fn work(queue: crossbeam_channel::Receiver<FileJob>, shared: &Shared<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    for job in queue {
        if !shared.tally.is_fatal() && !shared.observer.stop_requested() {
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
        // The name may still lead to an older file.
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
        Err(e) => shared.tally.failed(&e, shared.observer),
    }
    shared.observer.add_files(1);
    PendingDirectory::one_less(parent, false, shared.privileges, shortfalls);
}
