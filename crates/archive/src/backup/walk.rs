//! The walker of a backup: lists directories, compares them with the parent snapshot, and hands
//! files to lanes.
//!
//! Invariant: links on the way to a path of the command line are followed, and the directory that
//! they lead to is stored with its own metadata; links below such a path are not followed. Names
//! are visited in ascending order, as in the parent's directories.

use super::assemble::Pending;
use super::file_work::FileWork;
use super::frozen::{Frozen, FrozenOutcome};
use super::handing::{Handing, Order};
use super::level::{Level, View, take_old};
use super::reading::Reading;
use crate::filesystem::PathError;
use crate::filesystem::capture::{Captured, Directory, Sameness};
use crate::filesystem::in_memory::{InMemory, MemoryOutcome, SourceMemory};
use crate::filesystem::paced::Pacer;
use crate::ingest::{self, Context};
use crate::observer::{FileChange, Observer, WarningCounter, tell};
use crate::owners::OwnerIds;
use crate::selection::BackupSelection;
use format::recipe::ObjectRoot;
use format::snapshot::Missed;
use format::tree::{Entry, EntryKind};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use store::{Lane, LaneOptions, Pool, Reader, StoreError, StoreErrorKind, WriteSession};

/// Parameters of a backup.
pub struct TreePlan<'a> {
    /// Absolute paths without `.` and `..`.
    pub paths: &'a [PathBuf],
    /// Files to leave out.
    pub selection: &'a BackupSelection,
    /// Root of the tree to compare with; `None` reads everything.
    pub parent: Option<ObjectRoot>,
    /// Attributes by which an unchanged file is recognised.
    pub sameness: Sameness,
    /// Number of lanes.
    pub workers: usize,
    /// Packing of the lanes.
    pub lane: LaneOptions,
    /// Order in which files are read.
    pub order: Order,
    /// Delays reads of the source; `None` reads at once.
    pub pacer: Option<&'a dyn Pacer>,
    /// Read from snapshots of the source: of its btrfs subvolumes, else a reflink of each file.
    pub snapshot: bool,
}

/// Result of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOutcome {
    /// Files, links, devices.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Files taken over from the parent without opening them.
    pub files_unchanged: u64,
    /// Files that the parent has in another state.
    pub files_changed: u64,
    /// Entries that could not be read.
    pub failures: u64,
    /// Files that changed while they were read.
    pub changed_while_read: u64,
    /// Pages that were in memory.
    pub memory: MemoryOutcome,
    /// From what files were read, if the plan says snapshots.
    pub frozen: FrozenOutcome,
}

impl TreeOutcome {
    /// Returns the parts of the source that the snapshot lacks.
    pub fn missed(&self) -> Missed {
        Missed {
            unread: self.failures,
            changed: self.changed_while_read,
        }
    }
}

/// Stores the trees. Returns the root directory object, the counts, and the owners of all entries.
pub fn back_up_trees(
    pool: &Pool,
    session: &mut WriteSession,
    plan: &TreePlan<'_>,
    observer: &dyn Observer,
) -> Result<(ObjectRoot, TreeOutcome, OwnerIds), StoreError> {
    let top = Pending::new(None);
    let observer = WarningCounter::new(observer);
    let reader = pool.reader();
    let memory = SourceMemory::default();
    let frozen = plan.snapshot.then(Frozen::default);
    let reading = Reading {
        memory: &memory,
        pacer: plan.pacer,
        frozen: frozen.as_ref(),
    };
    let (mut outcome, owners) = ingest::run(
        session,
        plan.workers,
        plan.lane,
        &observer,
        |context, lane| {
            let mut walker = Walker {
                reader,
                plan,
                context,
                lane,
                outcome: TreeOutcome::default(),
                owners: OwnerIds::default(),
                frozen: frozen.as_ref(),
                files: Handing::new(context, reading, plan.order),
            };
            let tops = Tops::of(plan.paths);
            let root = Path::new("/");
            let parent = plan
                .parent
                .map(|root| walker.old_entries(&root))
                .unwrap_or_default();
            walker.virtual_directory(&tops, root, &top, parent)?;
            walker.files.end(walker.lane)?;
            walker.finish(&top)?;
            observer.totals_known();
            walker.outcome.memory.files_ahead = walker.files.ahead();
            Ok((walker.outcome, walker.owners))
        },
    )?;
    outcome.memory = memory.outcome(outcome.memory.files_ahead);
    outcome.frozen = frozen.map_or_else(FrozenOutcome::default, |frozen| frozen.outcome());
    outcome.changed_while_read = observer.changed();
    outcome.failures = observer.others();
    let root = top
        .root()
        .ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "the tree was not finished"))?;
    Ok((root, outcome, owners))
}

/// The paths to back up as a trie of components. Directories above a path keep only their metadata
/// and the entries that lead to it.
#[derive(Default)]
struct Tops {
    /// The path itself is to be backed up, with everything below.
    whole: bool,
    below: BTreeMap<CString, Tops>,
}

impl Tops {
    fn of(paths: &[PathBuf]) -> Self {
        let mut tops = Self::default();
        for path in paths {
            let mut at = &mut tops;
            for component in path.components() {
                if let Component::Normal(name) = component
                    && let Ok(name) = CString::new(name.as_encoded_bytes())
                {
                    at = at.below.entry(name).or_default();
                }
            }
            at.whole = true;
        }
        tops
    }
}

struct Walker<'w, 'a> {
    reader: &'w Reader,
    plan: &'w TreePlan<'w>,
    context: &'w Context<'a>,
    lane: &'w mut Lane,
    outcome: TreeOutcome,
    owners: OwnerIds,
    frozen: Option<&'w Frozen>,
    files: Handing<'w, 'a>,
}

impl Walker<'_, '_> {
    fn finish(&mut self, pending: &Arc<Pending>) -> Result<(), StoreError> {
        pending.listed(self.lane)
    }

    fn old_entries(&self, root: &ObjectRoot) -> Vec<Entry> {
        // An unreadable parent counts as no parent: everything is read.
        self.reader.directory(root).unwrap_or_default()
    }

    /// Stores a directory above the paths, with only the entries that lead to them.
    fn virtual_directory(
        &mut self,
        tops: &Tops,
        path: &Path,
        pending: &Arc<Pending>,
        old: Vec<Entry>,
    ) -> Result<(), StoreError> {
        if tops.whole {
            return match Directory::open(path) {
                Ok(directory) => self.walk(directory, Arc::clone(pending), old),
                Err(e) => {
                    self.context.observer.path_failed(&e);
                    Ok(())
                }
            };
        }
        let directory = match Directory::open(path) {
            Ok(directory) => Arc::new(directory),
            Err(e) => {
                self.context.observer.path_failed(&e);
                return Ok(());
            }
        };
        for (name, below) in &tops.below {
            let found = directory.stat(name).and_then(|captured| {
                let frozen = self.frozen_beside(&directory, &captured, below);
                let frozen = frozen
                    .map(Arc::new)
                    .map(|frozen| Ok((frozen.stat(name)?, frozen)));
                frozen.unwrap_or_else(|| Ok((captured, Arc::clone(&directory))))
            });
            let (captured, directory) = match found {
                Ok(found) => found,
                Err(e) => {
                    self.context.observer.path_failed(&e);
                    continue;
                }
            };
            let old = old.iter().find(|e| e.name == name.to_bytes()).cloned();
            let path = directory.path_of(name);
            let is_directory = matches!(captured.entry.kind, EntryKind::Directory { .. });
            let captured = match is_directory || !path.is_dir() {
                true => Ok(captured),
                false => self.behind_link(&path, name, below),
            };
            let captured = match captured {
                Ok(captured) => captured,
                Err(e) => {
                    self.context.observer.path_failed(&e);
                    continue;
                }
            };
            self.owners.add(&captured.entry);
            if !matches!(captured.entry.kind, EntryKind::Directory { .. }) {
                self.entry(&directory, name, captured, pending, old)?;
                continue;
            }
            let below_old = self.below_old(old.as_ref());
            let entry = match is_directory {
                true => self.directory_entry(&directory, name, captured, old),
                // All of it was read from the opened directory.
                false => captured.entry,
            };
            self.outcome.directories += 1;
            let child = Pending::new(Some((pending.slot(), entry)));
            self.virtual_directory(below, &path, &child, below_old)?;
            self.finish(&child)?;
        }
        Ok(())
    }

    /// Returns all metadata of the directory that a link on the way to a path leads to.
    fn behind_link(&self, path: &Path, name: &CStr, tops: &Tops) -> Result<Captured, PathError> {
        let live = Directory::open(path)?;
        let mut unreadable = Vec::new();
        let captured = live.capture_self(name.to_bytes(), &mut unreadable)?;
        let frozen = self
            .frozen
            .filter(|_| tops.whole)
            .and_then(|frozen| frozen.directory(&live, captured.entry.device));
        let captured = match frozen {
            Some(frozen) => frozen.capture_self(name.to_bytes(), &mut unreadable)?,
            None => captured,
        };
        unreadable
            .iter()
            .for_each(|e| self.context.observer.path_failed(e));
        Ok(captured)
    }

    /// Returns the directory of a path of the command line as it is in a snapshot, if that has the
    /// path too.
    fn frozen_beside(
        &self,
        directory: &Directory,
        captured: &Captured,
        tops: &Tops,
    ) -> Option<Directory> {
        let frozen = self.frozen.filter(|_| tops.whole)?;
        let own = directory.capture_self(b"", &mut Vec::new()).ok()?;
        let device = own.entry.device;
        (device == captured.entry.device).then(|| frozen.directory(directory, device))?
    }

    /// Returns the entries of a directory in the parent snapshot.
    fn below_old(&self, old: Option<&Entry>) -> Vec<Entry> {
        match old.map(|old| &old.kind) {
            Some(EntryKind::Directory { content }) => self.old_entries(content),
            _ => Vec::new(),
        }
    }

    /// Returns the entry of a directory with its attributes.
    fn directory_entry(
        &self,
        directory: &Directory,
        name: &CStr,
        captured: Captured,
        old: Option<Entry>,
    ) -> Entry {
        let xattrs = match old.filter(|old| captured.unchanged_since(old, Sameness::ALL)) {
            Some(old) => old.xattrs,
            None => self.xattrs(directory, name),
        };
        Entry {
            xattrs,
            ..captured.entry
        }
    }

    /// Returns false if the pool has lost a part of the file: reading it again repairs it.
    fn is_whole(&self, old: &Entry) -> bool {
        match &old.kind {
            EntryKind::File { content, .. } => self.reader.is_believed_whole(content),
            _ => true,
        }
    }

    fn xattrs(&self, directory: &Directory, name: &CStr) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut unreadable = Vec::new();
        let xattrs = directory.xattrs(name, &mut unreadable);
        unreadable
            .iter()
            .for_each(|e| self.context.observer.path_failed(e));
        xattrs
    }

    /// Walks everything below a directory with an explicit stack: the number of open files limits
    /// the depth.
    fn walk(
        &mut self,
        top: Directory,
        pending: Arc<Pending>,
        old: Vec<Entry>,
    ) -> Result<(), StoreError> {
        let device = match top.capture_self(b"top", &mut Vec::new()) {
            Ok(captured) => captured.entry.device,
            Err(e) => {
                self.context.observer.path_failed(&e);
                return Ok(());
            }
        };
        let mut levels = Vec::new();
        let top = self.view(top, device);
        // The caller closes the top; this loop closes each level below.
        if let Some(level) = self.level(top, pending, old, device) {
            levels.push(level);
        }
        while let Some(level) = levels.last_mut() {
            if self.context.stopped() {
                return Ok(());
            }
            let Some(name) = level.names.next() else {
                let Some(done) = levels.pop() else { break };
                if !levels.is_empty() {
                    self.finish(&done.pending)?;
                }
                continue;
            };
            let (captured, mounted) = match level.stat(&name) {
                Ok(found) => found,
                Err(e) => {
                    if !self.plan.selection.is_no_failure(&e) {
                        self.context.observer.path_failed(&e);
                    }
                    continue;
                }
            };
            let is_directory = matches!(captured.entry.kind, EntryKind::Directory { .. });
            let path = level.directory.path_of(&name);
            let selection = self.plan.selection;
            if selection.excludes_path(path.as_os_str().as_encoded_bytes(), is_directory)
                || (!is_directory && selection.excludes_len(captured.len))
                || selection.is_own_place(&captured.entry)
            {
                tell(self.context.observer, FileChange::Excluded, || path);
                continue;
            }
            self.owners.add(&captured.entry);
            let old = take_old(&mut level.old, name.to_bytes());
            if !is_directory {
                let (directory, pending) =
                    (Arc::clone(&level.directory), Arc::clone(&level.pending));
                self.entry(&directory, &name, captured, &pending, old)?;
                continue;
            }
            let device = level.device;
            let other = selection.stops_at_device(device, captured.entry.device);
            let opened = (!other).then(|| match mounted {
                true => self.mounted(level, &name, captured.entry.device),
                false => level.open_child(&name),
            });
            let slot = level.pending.slot();
            let directory = match mounted {
                true => level.outside(),
                false => &level.directory,
            };
            let below_old = self.below_old(old.as_ref());
            let entry = self.directory_entry(directory, &name, captured, old);
            self.outcome.directories += 1;
            let child = Pending::new(Some((slot, entry)));
            let level = match opened {
                Some(Ok(opened)) => self.level(opened, Arc::clone(&child), below_old, device),
                Some(Err(e)) => {
                    self.context.observer.path_failed(&e);
                    None
                }
                None => None,
            };
            match level {
                Some(level) => levels.push(level),
                None => self.finish(&child)?,
            }
        }
        Ok(())
    }

    /// Returns a directory as it is read: in a snapshot, with the one outside, or as it is.
    fn view(&self, live: Directory, device: u64) -> View {
        let frozen = self
            .frozen
            .and_then(|frozen| frozen.directory(&live, device));
        let (directory, live) = match frozen {
            Some(frozen) => (frozen, Some(live)),
            None => (live, None),
        };
        View {
            directory,
            live,
            device,
        }
    }

    /// Opens the top of another file system or subvolume.
    fn mounted(&self, above: &Level, name: &CStr, device: u64) -> Result<View, PathError> {
        let live = above.outside().open_child(name)?;
        Ok(self.view(live, device))
    }

    fn level(
        &mut self,
        view: View,
        pending: Arc<Pending>,
        old: Vec<Entry>,
        device: u64,
    ) -> Option<Level> {
        let View {
            directory,
            live,
            device: own_device,
        } = view;
        match directory.names() {
            Ok(mut names) => Some(Level {
                names: {
                    // Of a marked directory only itself and the marker are kept.
                    let marker = self.plan.selection.marker_in(&directory, &names);
                    if let Some(marker) = marker.map(CStr::to_owned) {
                        for name in names.iter().filter(|name| **name != marker) {
                            tell(self.context.observer, FileChange::Excluded, || {
                                directory.path_of(name)
                            });
                        }
                        names = vec![marker];
                    }
                    names.into_iter()
                },
                directory: Arc::new(directory),
                live,
                own_device,
                pending,
                old: old.into_iter().peekable(),
                device,
            }),
            Err(e) => {
                self.context.observer.path_failed(&e);
                None
            }
        }
    }

    /// Stores a file, link or special file.
    fn entry(
        &mut self,
        directory: &Arc<Directory>,
        name: &CStr,
        captured: Captured,
        pending: &Arc<Pending>,
        old: Option<Entry>,
    ) -> Result<(), StoreError> {
        let slot = pending.slot();
        let observer = self.context.observer;
        self.outcome.files += 1;
        let is_file = matches!(captured.entry.kind, EntryKind::File { .. });
        let len = if is_file { captured.len } else { 0 };
        self.outcome.bytes += len;
        observer.add_total(1, len);
        if let Some(old) = &old
            && captured.unchanged_since(old, self.plan.sameness)
            && self.is_whole(old)
        {
            self.outcome.files_unchanged += 1;
            tell(observer, FileChange::Unchanged, || directory.path_of(name));
            observer.add_bytes(len);
            observer.add_files(1);
            // Attributes change the status change time only.
            let xattrs = match captured.unchanged_since(old, Sameness::ALL) {
                true => old.xattrs.clone(),
                false => self.xattrs(directory, name),
            };
            let mut entry = captured.entry;
            entry.kind = old.kind.clone();
            entry.xattrs = xattrs;
            return slot.fill(Some(entry), self.lane);
        }
        self.outcome.files_changed += u64::from(old.is_some());
        if !is_file {
            let mut entry = captured.entry;
            entry.xattrs = self.xattrs(directory, name);
            let change = FileChange::of_stored(old.is_some());
            tell(observer, change, || directory.path_of(name));
            observer.add_files(1);
            return slot.fill(Some(entry), self.lane);
        }
        let file = FileWork {
            directory: Arc::clone(directory),
            name: name.to_owned(),
            captured,
            slot,
            in_memory: InMemory::Unknown,
            is_known: old.is_some(),
            kept_open: None,
        };
        self.files.add(file, self.lane)
    }
}
