//! The walk over a snapshot's directories.

use super::Trouble;
use super::files::{FileJob, Shared};
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::capture::Directory;
use crate::filesystem::metadata::{Privileges, Shortfalls};
use crate::filesystem::overwrite::{Overwrite, Placement};
use crate::progress::Progress;
use crate::selection::{SnapshotSelection, Verdict};
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Reader, StoreError, StoreErrorKind};

/// Files that may wait for a worker.
const QUEUE_MAX: usize = 256;

/// What to restore, and how.
pub struct RestorePlan<'a> {
    /// Directory object to restore the contents of.
    pub root: ObjectRoot,
    /// Metadata of that directory, given to the target itself; none leaves the target's alone.
    pub root_entry: Option<Entry>,
    /// Where to.
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
    /// Threads that write files.
    pub workers: usize,
    /// Change nothing, only count.
    pub dry_run: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// Files, links, devices.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Removed because the snapshot does not have them.
    pub deleted: u64,
    /// Left alone because of the overwrite mode.
    pub skipped: u64,
    /// Names that could not be restored because of damage.
    pub damaged: u64,
    /// Names that could not be written, attributes that could not be set.
    pub warnings: u64,
}

/// A directory of the target whose contents are still coming.
pub(super) struct PendingDirectory {
    pub target: Arc<TargetDirectory>,
    entry: Option<Entry>,
    parent: Option<Arc<PendingDirectory>>,
    /// Entries not done yet, plus one while the walk is in it.
    missing: AtomicUsize,
}

impl PendingDirectory {
    fn new(
        target: Arc<TargetDirectory>,
        entry: Option<Entry>,
        parent: Option<Arc<Self>>,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.missing.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(Self {
            target,
            entry,
            parent,
            missing: AtomicUsize::new(1),
        })
    }

    /// One entry is done; the last one gives the directory its metadata.
    pub fn one_less(at: Arc<Self>, privileges: Privileges, shortfalls: &mut Shortfalls) {
        let mut at = at;
        while at.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Some(entry) = &at.entry {
                at.target.finish(entry, privileges, shortfalls);
            }
            match &at.parent {
                Some(parent) => at = Arc::clone(parent),
                None => return,
            }
        }
    }
}

/// A further name of a file that is restored under another one.
struct HardLink {
    parent: Arc<PendingDirectory>,
    name: CString,
    from: (Arc<TargetDirectory>, CString),
}

/// A directory of the snapshot being walked.
struct Level {
    /// Its place in the target: made when the first selected entry needs it. Never in a dry run.
    pending: Option<Arc<PendingDirectory>>,
    /// Itself; none for the top.
    entry: Option<Entry>,
    path: Vec<u8>,
    selected: bool,
    entries: std::vec::IntoIter<Entry>,
}

struct Walk<'w, 'a> {
    plan: &'w RestorePlan<'a>,
    shared: &'w Shared<'a>,
    jobs: crossbeam_channel::Sender<FileJob>,
    outcome: RestoreOutcome,
    first_names: HashMap<(u64, u64), (Arc<TargetDirectory>, CString)>,
    links: Vec<HardLink>,
    shortfalls: Shortfalls,
}

/// Restores the contents of `plan.root` into the target.
pub fn restore_tree(
    reader: &Reader,
    plan: &RestorePlan<'_>,
    progress: &Progress,
) -> Result<RestoreOutcome, RestoreError> {
    let trouble = Trouble::default();
    let shared = Shared {
        reader,
        progress,
        trouble: &trouble,
        privileges: Privileges::of_process(),
        placement: plan.placement,
        all_sparse: plan.all_sparse,
    };
    let top = match plan.dry_run {
        true => None,
        false => Some(TargetDirectory::create_top(plan.target).map_err(RestoreError::Target)?),
    };
    let before = progress.warnings();
    let entries = reader.directory(&plan.root).map_err(RestoreError::Pool)?;
    let (jobs, queue) = crossbeam_channel::bounded::<FileJob>(QUEUE_MAX);
    let mut walk = Walk {
        plan,
        shared: &shared,
        jobs,
        outcome: RestoreOutcome::default(),
        first_names: HashMap::new(),
        links: Vec::new(),
        shortfalls: Shortfalls::default(),
    };
    let (outcome, mut shortfalls) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.workers.max(1))
            .map(|_| {
                let (queue, shared) = (queue.clone(), &shared);
                scope.spawn(move || {
                    let mut shortfalls = Shortfalls::default();
                    for job in queue {
                        if !shared.trouble.is_fatal() && !shared.progress.interrupt().requested() {
                            job.run(shared, &mut shortfalls);
                        }
                    }
                    shortfalls
                })
            })
            .collect();
        let top = top.map(|top| PendingDirectory::new(top, plan.root_entry.clone(), None));
        walk.run(top.as_ref(), entries);
        progress.totals_known();
        let Walk {
            jobs,
            links,
            outcome,
            mut shortfalls,
            ..
        } = walk;
        drop(jobs);
        for worker in workers {
            if let Ok(theirs) = worker.join() {
                shortfalls.absorb(theirs);
            }
        }
        // Every first name is there now; directories with links were kept waiting for them.
        for link in links {
            let HardLink { parent, name, from } = link;
            if let Err(e) = parent.target.link(&name, &from.0, &from.1) {
                shared.trouble.path(&e, progress);
            }
            progress.add_files(1);
            PendingDirectory::one_less(parent, shared.privileges, &mut shortfalls);
        }
        if let Some(top) = top {
            PendingDirectory::one_less(top, shared.privileges, &mut shortfalls);
        }
        (outcome, shortfalls)
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
    let damaged = trouble.finish().map_err(RestoreError::Pool)?;
    if progress.interrupt().requested() {
        return Err(RestoreError::Pool(StoreError::new(
            StoreErrorKind::Interrupted,
            "",
        )));
    }
    let warnings = progress.warnings() - before - damaged;
    Ok(RestoreOutcome {
        damaged,
        warnings,
        ..outcome
    })
}

/// Why a restore could not go on.
#[derive(Debug)]
pub enum RestoreError {
    /// The target as a whole.
    Target(crate::filesystem::PathError),
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

impl Walk<'_, '_> {
    fn run(&mut self, top: Option<&Arc<PendingDirectory>>, entries: Vec<Entry>) {
        let selected = self.plan.selection.includes.is_empty();
        if let Some(top) = top.filter(|_| selected) {
            self.delete_others(&top.target, &entries);
        }
        let mut levels = vec![Level {
            pending: top.cloned(),
            entry: None,
            path: Vec::new(),
            selected,
            entries: entries.into_iter(),
        }];
        while let Some(level) = levels.last_mut() {
            if self.shared.trouble.is_fatal() || self.shared.progress.interrupt().requested() {
                return;
            }
            let Some(entry) = level.entries.next() else {
                if let Some(Level {
                    pending: Some(done),
                    entry: Some(_),
                    ..
                }) = levels.pop()
                {
                    self.one_less(done);
                }
                continue;
            };
            let path = joined(&level.path, &entry.name);
            let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
            let Verdict { selected, enter } =
                self.plan
                    .selection
                    .verdict(&path, is_directory, level.selected);
            if selected {
                self.count(&entry);
            }
            if let EntryKind::Directory { content } = &entry.kind {
                if selected || enter {
                    let entries = self.entries(&path, content);
                    levels.push(Level {
                        pending: None,
                        entry: Some(entry),
                        path,
                        selected,
                        entries: entries.into_iter(),
                    });
                    if selected {
                        self.make(&mut levels);
                    }
                }
            } else if selected
                && !self.plan.dry_run
                && let Some(parent) = self.make(&mut levels)
            {
                self.entry(parent, entry);
            }
        }
    }

    /// Makes the directories of the levels down to the last one. `None` when that fails (which is
    /// reported once: the level that failed has no more entries) or in a dry run.
    fn make(&mut self, levels: &mut [Level]) -> Option<Arc<PendingDirectory>> {
        let mut parent: Option<Arc<PendingDirectory>> = None;
        for level in levels {
            if let (None, Some(entry), Some(above)) = (&level.pending, &level.entry, &parent) {
                let replace = self.plan.overwrite != Overwrite::Never;
                let name = CString::new(entry.name.clone()).ok()?;
                match above.target.make_directory(&name, replace) {
                    Ok(target) => {
                        if level.selected {
                            self.delete_others(&target, level.entries.as_slice());
                        }
                        let above = Some(Arc::clone(above));
                        level.pending =
                            Some(PendingDirectory::new(target, Some(entry.clone()), above));
                    }
                    Err(e) => {
                        self.shared.trouble.path(&e, self.shared.progress);
                        level.entries = Vec::new().into_iter();
                        return None;
                    }
                }
            }
            parent = level.pending.clone();
        }
        parent
    }

    /// Removes what a restored directory has and the snapshot has not.
    fn delete_others(&mut self, target: &TargetDirectory, entries: &[Entry]) {
        if !self.plan.delete {
            return;
        }
        let names = match Directory::open(target.path()).and_then(|d| d.names()) {
            Ok(names) => names,
            Err(e) => return self.shared.trouble.path(&e, self.shared.progress),
        };
        for name in names {
            let kept = entries.binary_search_by(|e| e.name.as_slice().cmp(name.to_bytes()));
            if kept.is_ok() {
                continue;
            }
            let path = target.path_of(&name);
            let removed = match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {
                    std::fs::remove_dir_all(&path).map_err(|e| PathError::new("remove", &path, e))
                }
                _ => target.remove(&name),
            };
            match removed {
                Ok(()) => self.outcome.deleted += 1,
                Err(e) => self.shared.trouble.path(&e, self.shared.progress),
            }
        }
    }

    fn count(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::Directory { .. } => self.outcome.directories += 1,
            kind => {
                let bytes = match kind {
                    EntryKind::File { content, .. } => content.len,
                    _ => 0,
                };
                self.outcome.files += 1;
                self.outcome.bytes += bytes;
                self.shared.progress.add_total(1, bytes);
            }
        }
    }

    fn entries(&self, path: &[u8], content: &ObjectRoot) -> Vec<Entry> {
        match self.shared.reader.directory(content) {
            Ok(entries) => entries,
            Err(e) => {
                self.shared
                    .trouble
                    .store(&display(path), e, self.shared.progress);
                Vec::new()
            }
        }
    }

    fn one_less(&mut self, pending: Arc<PendingDirectory>) {
        PendingDirectory::one_less(pending, self.shared.privileges, &mut self.shortfalls);
    }

    /// Restores a file, link or special file into `parent`.
    fn entry(&mut self, parent: Arc<PendingDirectory>, entry: Entry) {
        let progress = self.shared.progress;
        let Ok(name) = CString::new(entry.name.clone()) else {
            return;
        };
        let len = match &entry.kind {
            EntryKind::File { content, .. } => content.len,
            _ => 0,
        };
        if self.plan.overwrite != Overwrite::Always {
            match parent.target.existing(&name) {
                Ok(Some(existing)) if !self.plan.overwrite.writes_over(&existing, &entry, len) => {
                    self.outcome.skipped += 1;
                    progress.add_files(1);
                    progress.add_bytes(len);
                    return;
                }
                Ok(_) => {}
                Err(e) => {
                    self.shared.trouble.path(&e, progress);
                    return;
                }
            }
        }
        if entry.links > 1 {
            let key = (entry.device, entry.inode);
            if let Some(from) = self.first_names.get(&key) {
                let from = (Arc::clone(&from.0), from.1.clone());
                parent.missing.fetch_add(1, Ordering::Relaxed);
                self.links.push(HardLink { parent, name, from });
                progress.add_bytes(len);
                return;
            }
            self.first_names
                .insert(key, (Arc::clone(&parent.target), name.clone()));
        }
        match entry.kind {
            EntryKind::File { content, sparse } => {
                parent.missing.fetch_add(1, Ordering::Relaxed);
                let job = FileJob {
                    parent,
                    name,
                    entry,
                    content,
                    sparse,
                };
                // Workers end only after this side has.
                let _ = self.jobs.send(job);
            }
            _ => {
                let privileges = self.shared.privileges;
                let placed = parent
                    .target
                    .place(&name, &entry, privileges, &mut self.shortfalls);
                if let Err(e) = placed {
                    self.shared.trouble.path(&e, progress);
                }
                progress.add_files(1);
            }
        }
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len() + name.len() + 1);
    joined.extend_from_slice(path);
    joined.push(b'/');
    joined.extend_from_slice(name);
    joined
}

fn display(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}
