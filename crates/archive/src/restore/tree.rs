//! One restore from begin to end: the walk, its workers, and the hard links that come last. The
//! command `restore` calls this.
//!
//! Invariant: hard links are created after all workers have ended, so that every first name exists.

use super::files::{FileJob, RestoreContext};
use super::pending::{HardLink, PendingDirectory};
use super::plan::RestorePlan;
use super::tally::{RestoreOutcome, Tally};
use super::walk::Walk;
use crate::error::ArchiveError;
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::Shortfalls;
use crate::observer::{Observer, Warning};
use format::tree::{Entry, EntryKind};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use store::{Reader, StoreError, StoreErrorKind};

/// Maximum number of files that wait for a worker.
const QUEUE_MAX: usize = 256;
/// More failures of one kind than this are reported as one.
const ALIKE_MAX: usize = 3;

/// Restores the contents of `plan.root` into the target.
pub fn restore_tree(
    reader: &Reader,
    plan: &RestorePlan<'_>,
    observer: &dyn Observer,
) -> Result<RestoreOutcome, ArchiveError> {
    let tally = Tally::default();
    let shared = RestoreContext {
        reader,
        observer,
        tally: &tally,
        privileges: plan.privileges,
        placement: plan.placement,
        all_sparse: plan.all_sparse,
        partial: plan.partial,
    };
    let entries = plan.with_owners(reader.directory(&plan.root)?);
    let (jobs, queue) = crossbeam_channel::bounded::<FileJob>(QUEUE_MAX);
    let shortfalls = std::thread::scope(|scope| {
        let workers = if plan.dry_run { 0 } else { plan.workers.max(1) };
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let (queue, shared) = (queue.clone(), &shared);
                scope.spawn(move || work(queue, shared))
            })
            .collect();
        let own = plan
            .with_owners(plan.root_entry.iter().cloned().collect())
            .pop();
        let top = PendingDirectory::new(plan.top.clone(), own, None);
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
    report_shortfalls(&shortfalls.warnings, observer);
    let entries = shortfalls.owners_not_set;
    if entries > 0 {
        observer.warning(&Warning::OwnersNotSet { entries });
    }
    let copied = tally.links_copied();
    if copied > 0 {
        observer.warning(&Warning::LinksCopied { names: copied });
    }
    let warnings =
        shortfalls.warnings.len() as u64 + u64::from(entries > 0) + u64::from(copied > 0);
    let outcome = tally.finish(warnings)?;
    if observer.stop_requested() {
        return Err(StoreError::new(StoreErrorKind::Interrupted, "").into());
    }
    Ok(outcome)
}

fn work(queue: crossbeam_channel::Receiver<FileJob>, shared: &RestoreContext<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    for job in queue {
        if !shared.tally.is_fatal() && !shared.observer.stop_requested() {
            job.run(shared, &mut shortfalls);
        }
    }
    shortfalls
}

/// Reports metadata that could not be set: many failures of one kind as one warning.
fn report_shortfalls(warnings: &[PathError], observer: &dyn Observer) {
    let kind = |warning: &PathError| (warning.operation, units::reason(&warning.source));
    let mut groups: Vec<((&str, String), Vec<&PathError>)> = Vec::new();
    for warning in warnings {
        let kind = kind(warning);
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, group)) => group.push(warning),
            None => groups.push((kind, vec![warning])),
        }
    }
    for (_, group) in &groups {
        match group.as_slice() {
            [first, others @ ..] if others.len() >= ALIKE_MAX => {
                observer.warning(&Warning::Alike { first, others });
            }
            few => few.iter().for_each(|warning| observer.path_failed(warning)),
        }
    }
}

/// Returns true for a file system that has no hard links, or no more of them for this file.
fn has_no_links(error: &PathError) -> bool {
    let number = error.source.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::XDEV)
    )
}

fn add_name(link: HardLink, shared: &RestoreContext<'_>, shortfalls: &mut Shortfalls) {
    let HardLink {
        parent,
        target,
        name,
        from,
        replaces,
        entry,
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
        Err(e) if has_no_links(&e) => {
            shared.tally.count(|outcome| outcome.links_copied += 1);
            return copy_name(parent, target, name, *entry, replaces, shared, shortfalls);
        }
        Err(e) => shared.tally.failed(&e, 0, shared.observer),
    }
    shared.observer.add_files(1);
    PendingDirectory::one_less(parent, false, shared.privileges, shortfalls);
}

/// Restores a further name of a file as a file of its own.
fn copy_name(
    parent: Arc<PendingDirectory>,
    target: Arc<TargetDirectory>,
    name: CString,
    entry: Entry,
    replaces: bool,
    shared: &RestoreContext<'_>,
    shortfalls: &mut Shortfalls,
) {
    if let EntryKind::File { content, sparse } = entry.kind {
        let job = FileJob {
            parent,
            target,
            name,
            entry,
            content,
            sparse,
            replaces,
            first: None,
        };
        return job.run(shared, shortfalls);
    }
    match target.place(&name, &entry, shared.privileges, shortfalls) {
        Ok(_) => shared.tally.restored(0, replaces),
        Err(e) => shared.tally.failed(&e, 0, shared.observer),
    }
    shared.observer.add_files(1);
    PendingDirectory::one_less(parent, false, shared.privileges, shortfalls);
}
