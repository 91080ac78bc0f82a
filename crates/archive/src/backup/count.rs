//! Counts what a backup would store, without reading any file. `backup --dry-run` calls this.
//!
//! Invariant: it selects files as [`super::back_up_trees`] does.

use super::walk::TreeOutcome;
use crate::filesystem::capture::{Captured, Directory, Sameness};
use crate::observer::{FileChange, Observer, WarningCounter, tell};
use crate::selection::BackupSelection;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use store::{Pool, Reader, StoreError, StoreErrorKind};

/// Counts what [`super::back_up_trees`] would store of these paths.
pub fn count_trees(
    pool: &Pool,
    paths: &[PathBuf],
    selection: &BackupSelection,
    (parent, sameness): (Option<ObjectRoot>, Sameness),
    observer: &dyn Observer,
) -> Result<TreeOutcome, StoreError> {
    let observer = WarningCounter::new(observer);
    let mut count = Count {
        reader: pool.reader(),
        selection,
        sameness,
        observer: &observer,
        outcome: TreeOutcome::default(),
    };
    // Directories above the paths are stored too, with only the entries that lead to a path. The
    // root is no entry.
    let above: BTreeSet<&Path> = paths
        .iter()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|above| above.parent().is_some())
        .collect();
    count.outcome.directories = above.len() as u64;
    for path in paths {
        count.path(path, parent)?;
    }
    let failures = observer.others();
    Ok(TreeOutcome {
        failures,
        ..count.outcome
    })
}

struct Count<'c> {
    reader: &'c Reader,
    selection: &'c BackupSelection,
    sameness: Sameness,
    observer: &'c dyn Observer,
    outcome: TreeOutcome,
}

/// A directory to list, and its contents in the parent snapshot.
struct Waiting {
    directory: Directory,
    old: Option<ObjectRoot>,
    device: u64,
}

impl Count<'_> {
    /// Counts everything at and below one path of the command line.
    fn path(&mut self, path: &Path, parent: Option<ObjectRoot>) -> Result<(), StoreError> {
        let above = path.parent().unwrap_or(path);
        let old = self.descend(parent, above);
        let found = match (Directory::open(path), path.file_name()) {
            (Ok(directory), _) => {
                let captured = directory.capture_self(b"", &mut Vec::new());
                captured.map(|captured| Waiting {
                    old: self.descend(parent, path),
                    device: captured.entry.device,
                    directory,
                })
            }
            (Err(_), Some(name)) => {
                let name = CString::new(name.as_encoded_bytes()).unwrap_or_default();
                let captured = Directory::open(above).and_then(|above| above.stat(&name));
                match captured {
                    Ok(captured) => {
                        let old = self.old_entries(old);
                        self.file(&captured, &old, path);
                        return Ok(());
                    }
                    Err(e) => Err(e),
                }
            }
            (Err(e), None) => Err(e),
        };
        match found {
            Ok(waiting) => {
                self.outcome.directories += u64::from(path.parent().is_some());
                self.below(waiting)
            }
            Err(e) => {
                self.observer.path_failed(&e);
                Ok(())
            }
        }
    }

    fn below(&mut self, top: Waiting) -> Result<(), StoreError> {
        let mut waiting = vec![top];
        while let Some(Waiting {
            directory,
            old,
            device,
        }) = waiting.pop()
        {
            if self.observer.stop_requested() {
                return Err(StoreError::new(StoreErrorKind::Interrupted, ""));
            }
            let names = match directory.names() {
                Ok(names) => names,
                Err(e) => {
                    self.observer.path_failed(&e);
                    continue;
                }
            };
            let marker = self.selection.marker_in(&directory, &names);
            let names = match marker.map(CStr::to_owned) {
                Some(marker) => {
                    for name in names.iter().filter(|name| **name != marker) {
                        tell(self.observer, FileChange::Excluded, || {
                            directory.path_of(name)
                        });
                    }
                    vec![marker]
                }
                None => names,
            };
            let old = self.old_entries(old);
            for name in names {
                let captured = match directory.stat(&name) {
                    Ok(captured) => captured,
                    Err(e) if self.selection.is_no_failure(&e) => continue,
                    Err(e) => {
                        self.observer.path_failed(&e);
                        continue;
                    }
                };
                let is_directory = matches!(captured.entry.kind, EntryKind::Directory { .. });
                let path = directory.path_of(&name);
                let bytes = path.as_os_str().as_encoded_bytes();
                if self.selection.excludes_path(bytes, is_directory)
                    || (!is_directory && self.selection.excludes_len(captured.len))
                    || self.selection.is_own_place(&captured.entry)
                {
                    tell(self.observer, FileChange::Excluded, || path);
                    continue;
                }
                if !is_directory {
                    self.file(&captured, &old, &path);
                    continue;
                }
                self.outcome.directories += 1;
                let other = captured.entry.device;
                if self.selection.stops_at_device(device, other) {
                    continue;
                }
                match directory.open_child(&name) {
                    Ok(child) => waiting.push(Waiting {
                        directory: child,
                        old: find(&old, name.to_bytes()).and_then(content),
                        device,
                    }),
                    Err(e) => self.observer.path_failed(&e),
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, captured: &Captured, old: &[Entry], path: &Path) {
        self.outcome.files += 1;
        if matches!(captured.entry.kind, EntryKind::File { .. }) {
            self.outcome.bytes += captured.len;
        }
        let change = match find(old, &captured.entry.name) {
            Some(old) if captured.unchanged_since(old, self.sameness) => {
                self.outcome.files_unchanged += 1;
                FileChange::Unchanged
            }
            Some(_) => {
                self.outcome.files_changed += 1;
                FileChange::Changed
            }
            None => FileChange::New,
        };
        tell(self.observer, change, || path);
        self.observer.add_files(1);
    }

    /// Returns the directory object at `path` in the parent snapshot.
    fn descend(&self, root: Option<ObjectRoot>, path: &Path) -> Option<ObjectRoot> {
        let mut at = root?;
        for name in path.iter().filter(|name| *name != "/") {
            let entries = self.old_entries(Some(at));
            at = find(&entries, name.as_encoded_bytes()).and_then(content)?;
        }
        Some(at)
    }

    /// An unreadable parent counts as no parent.
    fn old_entries(&self, directory: Option<ObjectRoot>) -> Vec<Entry> {
        let entries = directory.map(|root| self.reader.directory(&root));
        entries.and_then(Result::ok).unwrap_or_default()
    }
}

fn find<'e>(entries: &'e [Entry], name: &[u8]) -> Option<&'e Entry> {
    let place = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
    entries.get(place.ok()?)
}

fn content(entry: &Entry) -> Option<ObjectRoot> {
    match entry.kind {
        EntryKind::Directory { content } => Some(content),
        _ => None,
    }
}
