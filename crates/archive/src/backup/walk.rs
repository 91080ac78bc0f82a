//! The walker of a backup: lists directories, compares them with the parent snapshot, and hands
//! files to lanes.
//!
//! Invariant: symbolic links below a path of the command line are not followed. Names are visited
//! in ascending order, as in the parent's directories.

use super::assemble::Pending;
use super::file_work::{FileGroup, FileWork};
use crate::filesystem::PathError;
use crate::filesystem::capture::{Captured, Directory};
use crate::filesystem::open_file::OpenFile;
use crate::ingest::{self, BATCH_BYTES, Context, Cutting, Source, StreamRun};
use crate::observer::{Observer, WarningCounter};
use crate::selection::BackupSelection;
use format::recipe::ObjectRoot;
use format::snapshot::Missed;
use format::tree::{Entry, EntryKind};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use store::{Lane, LaneOptions, Pool, Reader, StoreError, StoreErrorKind, WriteSession};

/// The walker itself reads longer files and cuts them into pieces for all lanes. One lane reads a
/// shorter file completely.
const LARGE_FILE_BYTES: u64 = 2 * BATCH_BYTES as u64;

/// Parameters of a backup.
pub struct TreePlan<'a> {
    /// Absolute paths without `.` and `..`.
    pub paths: &'a [PathBuf],
    /// Files to leave out.
    pub selection: &'a BackupSelection,
    /// Root of the tree to compare with; `None` reads everything.
    pub parent: Option<ObjectRoot>,
    /// Number of lanes.
    pub workers: usize,
    /// Packing of the lanes.
    pub lane: LaneOptions,
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

/// Stores the trees and returns the root directory object.
pub fn back_up_trees(
    pool: &Pool,
    session: &mut WriteSession,
    plan: &TreePlan<'_>,
    observer: &dyn Observer,
) -> Result<(ObjectRoot, TreeOutcome), StoreError> {
    let top = Pending::new(None);
    let observer = WarningCounter::new(observer);
    let reader = pool.reader();
    let mut outcome = ingest::run(
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
                group: FileGroup::default(),
            };
            let tops = Tops::of(plan.paths);
            let root = Path::new("/");
            let parent = plan
                .parent
                .map(|root| walker.old_entries(&root))
                .unwrap_or_default();
            walker.virtual_directory(&tops, root, &top, parent)?;
            walker.hand_out();
            walker.finish(&top)?;
            observer.totals_known();
            Ok(walker.outcome)
        },
    )?;
    outcome.changed_while_read = observer.changed();
    outcome.failures = observer.others();
    let root = top
        .root()
        .ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "the tree was not finished"))?;
    Ok((root, outcome))
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

/// Entries of a directory in the parent snapshot, by name.
type OldEntries = std::iter::Peekable<std::vec::IntoIter<Entry>>;

struct Walker<'w, 'a> {
    reader: &'w Reader,
    plan: &'w TreePlan<'w>,
    context: &'w Context<'a>,
    lane: &'w mut Lane,
    outcome: TreeOutcome,
    group: FileGroup,
}

/// A directory on the walked path.
struct Level {
    directory: Arc<Directory>,
    names: std::vec::IntoIter<CString>,
    pending: Arc<Pending>,
    old: OldEntries,
    device: u64,
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
            let captured = match directory.stat(name) {
                Ok(captured) => captured,
                Err(e) => {
                    self.context.observer.path_failed(&e);
                    continue;
                }
            };
            let old = old.iter().find(|e| e.name == name.to_bytes()).cloned();
            let path = directory.path_of(name);
            let is_directory = matches!(captured.entry.kind, EntryKind::Directory { .. });
            // If a path is given through a link, its target is backed up.
            if is_directory || path.is_dir() {
                let (entry, below_old) = match self.directory_entry(&directory, name, captured, old)
                {
                    Some(found) => found,
                    None => continue,
                };
                self.outcome.directories += 1;
                let child = Pending::new(Some((pending.slot(), entry)));
                self.virtual_directory(below, &path, &child, below_old)?;
                self.finish(&child)?;
            } else {
                self.entry(&directory, name, captured, pending, old)?;
            }
        }
        Ok(())
    }

    /// Returns the entry of a directory with its attributes, and its old entries.
    fn directory_entry(
        &mut self,
        directory: &Directory,
        name: &CStr,
        captured: Captured,
        old: Option<Entry>,
    ) -> Option<(Entry, Vec<Entry>)> {
        let old_entries = match &old {
            Some(Entry {
                kind: EntryKind::Directory { content },
                ..
            }) => self.old_entries(content),
            _ => Vec::new(),
        };
        let mut entry = captured.entry.clone();
        match old.filter(|old| captured.unchanged_since(old)) {
            Some(old) => entry.xattrs = old.xattrs,
            None => entry.xattrs = self.xattrs(directory, name),
        }
        if !matches!(entry.kind, EntryKind::Directory { .. }) {
            entry.kind = EntryKind::Directory {
                content: ObjectRoot::EMPTY,
            };
        }
        Some((entry, old_entries))
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
            let captured = match level.directory.stat(&name) {
                Ok(captured) => captured,
                Err(e) => {
                    // A file deleted between listing and stat is no failure.
                    if !e.is_gone() {
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
            {
                continue;
            }
            let old = take_old(&mut level.old, name.to_bytes());
            if !is_directory {
                let (directory, pending) =
                    (Arc::clone(&level.directory), Arc::clone(&level.pending));
                self.entry(&directory, &name, captured, &pending, old)?;
                continue;
            }
            let device = level.device;
            let other = selection.stops_at_device(device, captured.entry.device);
            let opened = level.directory.open_child(&name);
            let (directory, slot) = (Arc::clone(&level.directory), level.pending.slot());
            let Some((entry, below_old)) = self.directory_entry(&directory, &name, captured, old)
            else {
                continue;
            };
            self.outcome.directories += 1;
            let child = Pending::new(Some((slot, entry)));
            if other {
                self.finish(&child)?;
                continue;
            }
            let level = match opened {
                Ok(opened) => self.level(opened, Arc::clone(&child), below_old, device),
                Err(e) => {
                    self.context.observer.path_failed(&e);
                    None
                }
            };
            match level {
                Some(level) => levels.push(level),
                None => self.finish(&child)?,
            }
        }
        Ok(())
    }

    fn level(
        &mut self,
        directory: Directory,
        pending: Arc<Pending>,
        old: Vec<Entry>,
        device: u64,
    ) -> Option<Level> {
        match directory.names() {
            Ok(mut names) => Some(Level {
                names: {
                    // Of a marked directory only itself and the marker are kept.
                    let marker = self.plan.selection.marker_in(&directory, &names);
                    if let Some(marker) = marker.map(CStr::to_owned) {
                        names = vec![marker];
                    }
                    names.into_iter()
                },
                directory: Arc::new(directory),
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
            && captured.unchanged_since(old)
            && self.is_whole(old)
        {
            self.outcome.files_unchanged += 1;
            observer.add_bytes(len);
            observer.add_files(1);
            let mut entry = captured.entry;
            entry.kind = old.kind.clone();
            entry.xattrs = old.xattrs.clone();
            return slot.fill(Some(entry), self.lane);
        }
        self.outcome.files_changed += u64::from(old.is_some());
        if !is_file {
            let mut entry = captured.entry;
            entry.xattrs = self.xattrs(directory, name);
            observer.add_files(1);
            return slot.fill(Some(entry), self.lane);
        }
        let file = FileWork {
            directory: Arc::clone(directory),
            name: name.to_owned(),
            captured,
            slot,
        };
        if len > LARGE_FILE_BYTES || file.captured.may_have_holes() {
            // This thread will be busy with it for a while.
            self.hand_out();
            return self.large_file(file);
        }
        if self.group.add(file) {
            self.hand_out();
        }
        Ok(())
    }

    /// Submits the collected small files.
    fn hand_out(&mut self) {
        let group = std::mem::take(&mut self.group);
        if !group.is_empty() {
            self.context.submit(Box::new(group));
        }
    }

    /// Reads a long or sparse file here and hands its pieces to lanes.
    fn large_file(&mut self, file: FileWork) -> Result<(), StoreError> {
        let context = self.context;
        context.observer.set_current(
            file.directory
                .path_of(&file.name)
                .as_os_str()
                .as_encoded_bytes(),
        );
        let (opened, segments) = match file.open().and_then(|o| Ok((o.data_map()?, o))) {
            Ok((segments, opened)) => (opened, segments),
            Err(e) => {
                context.observer.path_failed(&e);
                return file.slot.fill(None, self.lane);
            }
        };
        let opened = Arc::new(opened);
        let (source, slot) = (Arc::clone(&opened), file.slot.clone());
        let sparse = segments.iter().any(|s| s.hole);
        let done = Box::new(move |root, lane: &mut Lane, context: &Context<'_>| {
            file.finish(&opened, root, sparse, lane, context)
        });
        let run = StreamRun::new(context, Cutting::Content(self.lane.splitter()), done);
        let read = run.read(&mut FileSource(source), Some(&segments));
        match read {
            Ok(_) => Ok(()),
            Err(e) => {
                context.observer.path_failed(&e);
                slot.fill(None, self.lane)
            }
        }
    }
}

/// Returns the old entry of a name; names are ascending on both sides.
fn take_old(old: &mut OldEntries, name: &[u8]) -> Option<Entry> {
    while old.next_if(|e| e.name.as_slice() < name).is_some() {}
    old.next_if(|e| e.name.as_slice() == name)
}

struct FileSource(Arc<OpenFile>);

impl Source for FileSource {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        self.0.read_at(offset, into)
    }
}
