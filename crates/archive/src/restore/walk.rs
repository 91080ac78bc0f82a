//! Walks a snapshot's directories beside those of the target. `restore_tree` calls this.
//!
//! Invariant: [`super::decide`] decides about each name, from what exists. A dry run takes the same
//! path and leaves out the changes. Everything is reached through handles of open directories.

use super::decide::{self, Action};
use super::files::{FileJob, RestoreContext};
use super::pending::{FirstName, HardLink, PendingDirectory};
use super::plan::RestorePlan;
use crate::filesystem::PathError;
use crate::filesystem::apply::TargetDirectory;
use crate::filesystem::metadata::Shortfalls;
use crate::selection::Verdict;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A directory of the snapshot on the walked path.
struct Level {
    /// Its place in the target: created when the first selected entry needs it.
    pending: Option<Arc<PendingDirectory>>,
    /// Its own entry; `None` for the top.
    entry: Option<Entry>,
    path: Vec<u8>,
    selected: bool,
    /// It could not be made, so nothing below it can: everything selected there is only counted.
    is_lost: bool,
    entries: std::vec::IntoIter<Entry>,
}

pub(super) struct Walk<'w, 'a> {
    plan: &'w RestorePlan<'a>,
    shared: &'w RestoreContext<'a>,
    jobs: crossbeam_channel::Sender<FileJob>,
    first_names: HashMap<(u64, u64), Arc<FirstName>>,
    /// In a dry run: files that would exist under a first name.
    first_planned: HashSet<(u64, u64)>,
    links: Vec<HardLink>,
    shortfalls: Shortfalls,
}

impl<'w, 'a> Walk<'w, 'a> {
    pub fn new(
        plan: &'w RestorePlan<'a>,
        shared: &'w RestoreContext<'a>,
        jobs: crossbeam_channel::Sender<FileJob>,
    ) -> Self {
        Self {
            plan,
            shared,
            jobs,
            first_names: HashMap::new(),
            first_planned: HashSet::new(),
            links: Vec::new(),
            shortfalls: Shortfalls::default(),
        }
    }

    /// Returns the remaining work. Drops the queue, so that the workers end when it is empty.
    pub fn finish(self) -> (Vec<HardLink>, Shortfalls) {
        (self.links, self.shortfalls)
    }

    pub fn run(&mut self, top: &Arc<PendingDirectory>, entries: Vec<Entry>) {
        let selected = self.plan.selection.includes.is_empty();
        if selected {
            self.delete_others(top, &[], &entries);
        }
        let mut levels = vec![Level {
            pending: Some(Arc::clone(top)),
            entry: None,
            path: Vec::new(),
            selected,
            is_lost: false,
            entries: entries.into_iter(),
        }];
        while let Some(level) = levels.last_mut() {
            if self.shared.tally.is_fatal() || self.shared.observer.stop_requested() {
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
            let is_lost = level.is_lost || self.shared.tally.is_full();
            let path = joined(&level.path, &entry.name);
            let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
            let Verdict { selected, enter } =
                self.plan
                    .selection
                    .verdict(&path, is_directory, level.selected);
            self.shared
                .tally
                .count(|outcome| outcome.selected += u64::from(selected));
            if let EntryKind::Directory { content } = &entry.kind {
                if selected || enter {
                    let entries = self.entries(&path, content);
                    levels.push(Level {
                        pending: None,
                        entry: Some(entry),
                        path,
                        selected,
                        is_lost,
                        entries: entries.into_iter(),
                    });
                    if selected && !is_lost {
                        self.make(&mut levels);
                    }
                }
            } else if selected {
                self.expect(&entry);
                let parent = (!is_lost).then(|| self.make(&mut levels)).flatten();
                match parent {
                    Some(parent) => self.entry(parent, entry, &path),
                    None => self.not_tried(&entry),
                }
            }
        }
    }

    /// Creates the directories of the levels down to the last one. On failure, reports it once,
    /// marks the level that failed and those below as lost, and returns `None`.
    fn make(&mut self, levels: &mut [Level]) -> Option<Arc<PendingDirectory>> {
        let mut parent: Option<Arc<PendingDirectory>> = None;
        for number in 0..levels.len() {
            let level = levels.get_mut(number)?;
            if let (None, Some(entry), Some(above)) = (&level.pending, &level.entry, &parent) {
                match self.directory(above, entry, &level.path) {
                    Ok(target) => {
                        let above = Some(Arc::clone(above));
                        let made = PendingDirectory::new(target, Some(entry.clone()), above);
                        if level.selected {
                            self.delete_others(&made, &level.path, level.entries.as_slice());
                        }
                        level.pending = Some(made);
                    }
                    Err(e) => {
                        self.shared.tally.failed(&e, 0, self.shared.observer);
                        for level in levels.iter_mut().skip(number) {
                            level.is_lost = true;
                        }
                        return None;
                    }
                }
            }
            parent = level.pending.clone();
        }
        parent
    }

    /// Creates or opens one directory; `None` in a dry run if it does not exist.
    fn directory(
        &self,
        above: &PendingDirectory,
        entry: &Entry,
        path: &[u8],
    ) -> Result<Option<Arc<TargetDirectory>>, PathError> {
        let name = self.name(entry, path)?;
        let existing = match &above.target {
            Some(above) => above.existing(&name)?,
            None => None,
        };
        let is_given = self.plan.leads_to_given(path);
        let action = decide::of_directory(self.plan.overwrite, existing.as_ref(), is_given);
        self.tell(action, path);
        let target = match (&above.target, action) {
            (_, Action::Refuse(why)) => {
                let why = io::Error::other(why.text());
                return Err(PathError::new("make directory", self.shown(path), why));
            }
            (Some(above), Action::Follow) => Some(self.through_link(above, &name, path)?),
            (Some(above), Action::Enter) if self.plan.dry_run => Some(above.open_child(&name)?),
            (Some(above), _) if !self.plan.dry_run => {
                Some(above.make_directory(&name, action == Action::Replace)?)
            }
            _ => None,
        };
        self.shared.tally.count(|outcome| {
            outcome.directories += 1;
            outcome.replaced += u64::from(action == Action::Replace);
        });
        Ok(target)
    }

    /// Opens what a link in the place of a directory leads to.
    fn through_link(
        &self,
        above: &TargetDirectory,
        name: &CStr,
        path: &[u8],
    ) -> Result<Arc<TargetDirectory>, PathError> {
        let beneath = path.strip_suffix(name.to_bytes()).unwrap_or_default();
        let top = self.plan.top.as_deref().unwrap_or(above);
        let directory = above.open_through_link(name, top, beneath)?;
        if !self.plan.dry_run {
            directory.make_writable();
        }
        Ok(directory)
    }

    /// Removes names from a restored directory that the snapshot does not have.
    fn delete_others(&self, directory: &PendingDirectory, path: &[u8], entries: &[Entry]) {
        let Some(target) = directory.target.as_ref().filter(|_| self.plan.delete) else {
            return;
        };
        let observer = self.shared.observer;
        let names = match target.names() {
            Ok(names) => names,
            Err(e) => return self.shared.tally.failed(&e, 0, observer),
        };
        for name in names {
            let kept = entries.binary_search_by(|e| e.name.as_slice().cmp(name.to_bytes()));
            if kept.is_ok() {
                continue;
            }
            self.tell(Action::Remove, &joined(path, name.to_bytes()));
            let removed = match self.plan.dry_run {
                true => Ok(()),
                false => self.remove(target, &name),
            };
            match removed {
                Ok(()) => self.shared.tally.count(|outcome| outcome.deleted += 1),
                Err(_) if observer.stop_requested() => return,
                Err(e) => self.shared.tally.failed(&e, 0, observer),
            }
        }
    }

    fn remove(&self, target: &TargetDirectory, name: &CStr) -> Result<(), PathError> {
        let observer = self.shared.observer;
        target.remove_all(name, &mut || match observer.stop_requested() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        })
    }

    /// Counts a selected entry.
    fn expect(&self, entry: &Entry) {
        let bytes = len_of(entry);
        self.shared.tally.count(|outcome| {
            outcome.files_meant += 1;
            outcome.bytes_meant += bytes;
        });
        self.shared.observer.add_total(1, bytes);
    }

    /// Counts a selected entry that has no directory to go to.
    fn not_tried(&self, entry: &Entry) {
        let len = len_of(entry);
        self.shared.tally.not_tried(len);
        self.shared.observer.add_files(1);
        self.shared.observer.add_bytes(len);
    }

    fn entries(&self, path: &[u8], content: &ObjectRoot) -> Vec<Entry> {
        match self.shared.reader.directory(content) {
            Ok(entries) => self.plan.with_owners(entries),
            Err(e) => {
                let what = "its contents are not restored";
                let path = self.shown(path);
                self.shared.tally.lost(&path, what, e, self.shared.observer);
                Vec::new()
            }
        }
    }

    fn one_less(&mut self, pending: Arc<PendingDirectory>) {
        let privileges = self.shared.privileges;
        let dry_run = self.plan.dry_run;
        PendingDirectory::one_less(pending, dry_run, privileges, &mut self.shortfalls);
    }

    /// Restores a file, link or special file into `parent`.
    fn entry(&mut self, parent: Arc<PendingDirectory>, entry: Entry, path: &[u8]) {
        let (observer, tally) = (self.shared.observer, self.shared.tally);
        let len = len_of(&entry);
        let (name, action) = match self.decided(&parent, &entry, path) {
            Ok(decided) => decided,
            Err(e) => return tally.failed(&e, len, observer),
        };
        self.tell(action, path);
        match action {
            Action::Create | Action::Replace | Action::Enter | Action::Follow => {}
            Action::Refuse(why) => {
                let why = io::Error::other(why.text());
                let error = PathError::new("replace", self.shown(path), why);
                return tally.failed(&error, len, observer);
            }
            Action::Leave | Action::Skip | Action::Remove => {
                tally.count(|outcome| match action {
                    Action::Skip => outcome.devices_skipped += 1,
                    _ => outcome.skipped += 1,
                });
                observer.add_files(1);
                observer.add_bytes(len);
                return;
            }
        }
        let replaces = action == Action::Replace;
        let Some(target) = parent.target.clone().filter(|_| !self.plan.dry_run) else {
            let key = (entry.device, entry.inode);
            let is_first = entry.links < 2 || self.first_planned.insert(key);
            return tally.restored(if is_first { len } else { 0 }, replaces);
        };
        let first = match self.first_name(&entry, &target, &name) {
            Err(from) => {
                parent.one_more();
                self.links.push(HardLink {
                    parent,
                    target,
                    name,
                    from,
                    replaces,
                    entry: Box::new(entry),
                });
                return observer.add_bytes(len);
            }
            Ok(first) => first,
        };
        if let EntryKind::File { content, sparse } = entry.kind {
            parent.one_more();
            // Workers end only after this side has.
            let _ = self.jobs.send(FileJob {
                parent,
                target,
                name,
                entry,
                content,
                sparse,
                replaces,
                first,
            });
            return;
        }
        match target.place(&name, &entry, self.shared.privileges, &mut self.shortfalls) {
            Ok(made) => {
                if let Some(first) = first {
                    let _ = first.made.set(made);
                }
                tally.restored(0, replaces);
            }
            Err(e) => tally.failed(&e, 0, observer),
        }
        observer.add_files(1);
    }

    fn decided(
        &self,
        parent: &PendingDirectory,
        entry: &Entry,
        path: &[u8],
    ) -> Result<(CString, Action), PathError> {
        let name = self.name(entry, path)?;
        let existing = match &parent.target {
            Some(target) => target.existing(&name)?,
            None => None,
        };
        // An unreadable directory is not replaced.
        let holds_names = || {
            let below = parent
                .target
                .as_ref()
                .map(|target| target.open_child(&name));
            let names = below
                .transpose()
                .and_then(|below| below.map(|d| d.names()).transpose());
            !names.is_ok_and(|names| names.is_none_or(|names| names.is_empty()))
        };
        let (overwrite, devices) = (self.plan.overwrite, self.plan.devices);
        let action = decide::of_file(overwrite, devices, entry, existing.as_ref(), holds_names);
        Ok((name, action))
    }

    /// Registers the file's first name, if it has several; `Err` has the earlier one.
    fn first_name(
        &mut self,
        entry: &Entry,
        target: &Arc<TargetDirectory>,
        name: &CStr,
    ) -> Result<Option<Arc<FirstName>>, Arc<FirstName>> {
        if entry.links < 2 {
            return Ok(None);
        }
        let key = (entry.device, entry.inode);
        if let Some(earlier) = self.first_names.get(&key) {
            return Err(Arc::clone(earlier));
        }
        let first = Arc::new(FirstName {
            directory: Arc::clone(target),
            name: name.to_owned(),
            made: OnceLock::new(),
        });
        self.first_names.insert(key, Arc::clone(&first));
        Ok(Some(first))
    }

    fn name(&self, entry: &Entry, path: &[u8]) -> Result<CString, PathError> {
        let name = CString::new(entry.name.clone());
        name.map_err(|e| PathError::new("restore", self.shown(path), e))
    }

    fn tell(&self, action: Action, path: &[u8]) {
        (self.plan.tell)(action, &self.shown(path));
    }

    /// Returns a path in the target.
    fn shown(&self, path: &[u8]) -> PathBuf {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        self.plan.target.join(Path::new(OsStr::from_bytes(below)))
    }
}

fn len_of(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::File { content, .. } => content.len,
        _ => 0,
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len() + name.len() + 1);
    joined.extend_from_slice(path);
    joined.push(b'/');
    joined.extend_from_slice(name);
    joined
}
