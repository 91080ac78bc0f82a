//! Selects files of a source, or entries of a snapshot. Backup, restore, ls, find and rewrite call
//! this.
//!
//! Invariant: decisions depend only on path, type, length, device and marker files, so that two
//! runs over the same tree select alike.

mod glob;
mod own_places;
mod patterns;

pub use own_places::OwnPlaces;
pub use patterns::{PatternError, Patterns};

use crate::filesystem::PathError;
use crate::filesystem::capture::Directory;
use format::tree::{Entry, EntryKind};
use machine::is_backup_snapshot;
use std::ffi::{CStr, CString};

/// Name and first bytes of the file that marks a cache directory (bford.info/cachedir).
const CACHE_TAG: &CStr = c"CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A file whose presence excludes the rest of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    name: CString,
    /// Required first bytes.
    header: Vec<u8>,
}

impl Marker {
    /// `CACHEDIR.TAG` with its signature.
    pub fn cache() -> Self {
        Self {
            name: CACHE_TAG.to_owned(),
            header: CACHE_SIGNATURE.to_vec(),
        }
    }

    /// Parses `NAME` or `NAME:HEADER`, the argument of `--exclude-if-present`.
    pub fn parse(text: &[u8]) -> Result<Self, PatternError> {
        let mut parts = text.splitn(2, |b| *b == b':');
        let name = parts.next().unwrap_or_default();
        let header = parts.next().unwrap_or_default().to_vec();
        match CString::new(name) {
            Ok(name) if !name.is_empty() && !name.to_bytes().contains(&b'/') => {
                Ok(Self { name, header })
            }
            _ => Err(PatternError::new(
                text,
                "the name of a marker file contains no /",
            )),
        }
    }

    fn is_in(&self, directory: &Directory, names: &[CString]) -> bool {
        if names.binary_search(&self.name).is_err() {
            return false;
        }
        if self.header.is_empty() {
            return true;
        }
        let mut head = vec![0; self.header.len()];
        // An unreadable marker marks nothing: storing too much is safer than too little.
        directory
            .open_file(&self.name)
            .and_then(|file| file.read_at(0, &mut head))
            .is_ok_and(|count| count == head.len() && head == self.header)
    }
}

/// Files that a backup leaves out.
#[derive(Clone, Debug, Default)]
pub struct BackupSelection {
    /// By path.
    pub excludes: Patterns,
    /// By marker files.
    pub markers: Vec<Marker>,
    /// Stay on the device of each source.
    pub one_file_system: bool,
    /// Places of this program.
    pub own: OwnPlaces,
    /// Files longer than this, bytes.
    pub larger_than: Option<u64>,
}

impl BackupSelection {
    /// Returns true if the entry, and everything below it, is excluded by its path (from the root,
    /// with a leading `/`).
    pub fn excludes_path(&self, path: &[u8], is_directory: bool) -> bool {
        self.excludes.matches(path, is_directory) == Some(true)
    }

    /// Returns true for a directory that is left out because this program made it: its pool, its
    /// mounts, its snapshots of the source.
    pub fn is_own_place(&self, directory: &Entry) -> bool {
        matches!(directory.kind, EntryKind::Directory { .. })
            && (self.own.has(directory) || is_backup_snapshot(&directory.name, directory.inode))
    }

    /// Returns true for a failure that is none: the entry went away meanwhile, or it is a mount of
    /// this program that no process serves.
    pub fn is_no_failure(&self, error: &PathError) -> bool {
        error.is_not_found() || self.own.has_point(&error.path)
    }

    /// Returns true if a file of this length is excluded.
    pub fn excludes_len(&self, len: u64) -> bool {
        self.larger_than.is_some_and(|limit| len > limit)
    }

    /// Returns the marker file among the (sorted) names of a directory, if any: then only the
    /// directory itself and this file are kept.
    pub fn marker_in(&self, directory: &Directory, names: &[CString]) -> Option<&CStr> {
        let mut markers = self.markers.iter();
        let marker = markers.find(|marker| marker.is_in(directory, names))?;
        Some(&marker.name)
    }

    /// Returns true if a directory on `device` is kept but not entered: a mount point.
    pub fn stops_at_device(&self, source_device: u64, device: u64) -> bool {
        self.one_file_system && source_device != device
    }
}

/// Selected entries of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotSelection {
    /// Selects everything if there are none.
    pub includes: Patterns,
    /// Excluded from these.
    pub excludes: Patterns,
}

/// Decision about one entry of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The entry is selected, with everything below that is not excluded.
    pub selected: bool,
    /// Something below it may be selected: enter it.
    pub enter: bool,
}

impl SnapshotSelection {
    /// Returns true if everything is selected.
    pub fn is_all(&self) -> bool {
        self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Decides about `path` (from the snapshot's top, with a leading `/`). `parent_selected`: the
    /// decision on its directory.
    pub fn verdict(&self, path: &[u8], is_directory: bool, parent_selected: bool) -> Verdict {
        if self.excludes.matches(path, is_directory) == Some(true) {
            return Verdict {
                selected: false,
                enter: false,
            };
        }
        let selected = self.includes.is_empty()
            || match self.includes.matches(path, is_directory) {
                Some(included) => included,
                None => parent_selected,
            };
        let enter = is_directory && (selected || self.includes.may_match_below(path));
        Verdict { selected, enter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn patterns(lines: &[&str]) -> Patterns {
        let mut patterns = Patterns::default();
        for line in lines {
            patterns.add(line.as_bytes(), false).unwrap();
        }
        patterns
    }

    #[test]
    fn markers() {
        let top = tempfile::tempdir().unwrap();
        let directory = Directory::open(top.path()).unwrap();
        let selection = BackupSelection {
            markers: vec![
                Marker::cache(),
                Marker::parse(b".nobackup").unwrap(),
                Marker::parse(b"tag:yes:really").unwrap(),
            ],
            ..BackupSelection::default()
        };
        let found = || {
            let names = directory.names().unwrap();
            selection.marker_in(&directory, &names).map(CStr::to_owned)
        };
        let write = |name: &str, bytes: &[u8]| fs::write(top.path().join(name), bytes).unwrap();
        assert_eq!(found(), None);
        write("CACHEDIR.TAG", b"not the signature");
        write("tag", b"yes:reall");
        assert_eq!(found(), None);
        write("tag", b"yes:really and more");
        assert_eq!(found().as_deref(), Some(c"tag"));
        write("CACHEDIR.TAG", CACHE_SIGNATURE);
        assert_eq!(found().as_deref(), Some(c"CACHEDIR.TAG"));
        fs::remove_file(top.path().join("CACHEDIR.TAG")).unwrap();
        write(".nobackup", b"");
        assert_eq!(found().as_deref(), Some(c".nobackup"));
        for nonsense in [&b""[..], b"a/b", b":header", b"a\0b"] {
            assert!(Marker::parse(nonsense).is_err());
        }
    }

    #[test]
    fn lengths_and_devices() {
        let all = BackupSelection::default();
        assert!(!all.excludes_len(u64::MAX) && !all.stops_at_device(1, 2));
        let some = BackupSelection {
            one_file_system: true,
            larger_than: Some(10),
            ..BackupSelection::default()
        };
        assert!(some.excludes_len(11) && !some.excludes_len(10));
        assert!(some.stops_at_device(1, 2) && !some.stops_at_device(1, 1));
    }

    #[test]
    fn verdicts_on_snapshot_entries() {
        let selection = SnapshotSelection {
            includes: patterns(&["/home/*/work", "*.txt"]),
            excludes: patterns(&["/home/b"]),
        };
        let verdict = |path: &str, is_directory, parent_selected| {
            let v = selection.verdict(path.as_bytes(), is_directory, parent_selected);
            (v.selected, v.enter)
        };
        assert_eq!(verdict("/home", true, false), (false, true));
        assert_eq!(verdict("/home/a/work", true, false), (true, true));
        assert_eq!(verdict("/home/a/work/x", false, true), (true, false));
        assert_eq!(verdict("/home/b", true, false), (false, false));
        assert_eq!(verdict("/etc/x.txt", false, false), (true, false));
        assert_eq!(verdict("/etc/x.bin", false, false), (false, false));
        assert!(SnapshotSelection::default().is_all());
        let only = SnapshotSelection {
            includes: patterns(&["/home/*/work"]),
            ..SnapshotSelection::default()
        };
        assert!(!only.verdict(b"/etc", true, false).enter);
        assert!(
            SnapshotSelection::default()
                .verdict(b"/etc", true, true)
                .selected
        );
    }
}
