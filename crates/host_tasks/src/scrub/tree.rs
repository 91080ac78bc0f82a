//! Numbers the directories and regular files of a snapshot below a path. The task's units are made
//! of these numbers.
//!
//! Invariant: a snapshot does not change, so the same options give the same numbers; a scrub can be
//! continued by another process. A file with several names has one number. The files of a directory
//! follow it directly.

use archive::selection::Patterns;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use store::{Reader, Result, StoreError};

/// The place that is compared.
#[derive(Clone, Debug)]
pub enum Top {
    /// A directory, on the disk and in the snapshot.
    Directory {
        /// Path on the disk.
        path: PathBuf,
        /// Directory object.
        content: ObjectRoot,
        /// Its device when the backup ran; `None` for all devices below.
        one_device: Option<u64>,
    },
    /// A file, by its directory and name.
    File {
        /// Path of the directory on the disk.
        directory: PathBuf,
        /// Directory object.
        content: ObjectRoot,
        /// Name in there.
        name: Vec<u8>,
    },
}

/// Totals of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Further names of them.
    pub hard_links: u64,
}

/// A directory.
#[derive(Debug)]
pub(crate) struct Directory {
    /// `None`: the top.
    pub parent: Option<u32>,
    /// Name in the parent.
    pub name: Vec<u8>,
    /// Directory object.
    pub content: ObjectRoot,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    len: u64,
    directory: u32,
    /// Place of the file in its directory; [`DIRECTORY`] for the directory itself.
    place: u32,
}

const DIRECTORY: u32 = u32::MAX;

/// See the module's head.
#[derive(Debug)]
pub struct FileTree {
    top: PathBuf,
    directories: Vec<Directory>,
    rows: Vec<Row>,
    /// Inodes of files and their numbers, sorted.
    by_inode: Vec<(u64, u64)>,
    totals: Totals,
    /// Directories of the snapshot that are damaged in the pool.
    damaged: Vec<(Vec<u8>, StoreError)>,
}

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The names of a directory.
    Names {
        /// Index of the directory.
        directory: u32,
    },
    /// A file.
    File {
        /// Index of its directory.
        directory: u32,
        /// Place of its entry there.
        place: usize,
        /// Length, bytes.
        len: u64,
    },
}

impl FileTree {
    /// Reads the directories of the snapshot. Patterns see absolute paths, as those of a backup do.
    pub fn read(reader: &Reader, top: &Top, excludes: &Patterns) -> Result<Self> {
        let mut tree = Self {
            top: match top {
                Top::Directory { path, .. } => path.clone(),
                Top::File { directory, .. } => directory.clone(),
            },
            directories: Vec::new(),
            rows: Vec::new(),
            by_inode: Vec::new(),
            totals: Totals::default(),
            damaged: Vec::new(),
        };
        match top {
            Top::Directory {
                content,
                one_device,
                ..
            } => tree.read_below(reader, *content, *one_device, excludes)?,
            Top::File { content, name, .. } => tree.read_file(reader, *content, name)?,
        }
        tree.by_inode.sort_unstable();
        Ok(tree)
    }

    fn read_file(&mut self, reader: &Reader, content: ObjectRoot, name: &[u8]) -> Result<()> {
        self.directories.push(Directory {
            parent: None,
            name: Vec::new(),
            content,
        });
        let entries = reader.directory(&content)?;
        let place = entries.iter().position(|entry| entry.name == name);
        if let Some((place, entry)) = place.and_then(|place| Some((place, entries.get(place)?)))
            && let EntryKind::File { content, .. } = entry.kind
        {
            self.add_file(0, place, entry, content.len);
        }
        Ok(())
    }

    fn read_below(
        &mut self,
        reader: &Reader,
        top: ObjectRoot,
        one_device: Option<u64>,
        excludes: &Patterns,
    ) -> Result<()> {
        let mut links = HashSet::new();
        let mut waiting = vec![(None, Vec::new(), top)];
        while let Some((parent, name, content)) = waiting.pop() {
            let index = self.directories.len() as u32;
            self.directories.push(Directory {
                parent,
                name,
                content,
            });
            let entries = match reader.directory(&content) {
                Ok(entries) => entries,
                Err(error) if error.is_corruption() => {
                    self.damaged.push((self.path_of(index), error));
                    continue;
                }
                Err(e) => return Err(e),
            };
            self.rows.push(Row {
                len: 0,
                directory: index,
                place: DIRECTORY,
            });
            let mut below = Vec::new();
            for (place, entry) in entries.into_iter().enumerate() {
                let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
                if self.excludes(index, &entry.name, is_directory, excludes) {
                    continue;
                }
                match entry.kind {
                    EntryKind::Directory { content }
                        if one_device.is_none_or(|device| device == entry.device) =>
                    {
                        below.push((Some(index), entry.name, content));
                    }
                    EntryKind::File { content, .. } => {
                        let link = (entry.device, entry.inode);
                        if entry.links > 1 && !links.insert(link) {
                            self.totals.hard_links += 1;
                        } else {
                            self.add_file(index, place, &entry, content.len);
                        }
                    }
                    _ => {}
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn add_file(&mut self, directory: u32, place: usize, entry: &Entry, len: u64) {
        self.by_inode.push((entry.inode, self.rows.len() as u64));
        self.totals.files += 1;
        self.totals.bytes += len;
        self.rows.push(Row {
            len,
            directory,
            place: place as u32,
        });
    }

    fn excludes(
        &self,
        directory: u32,
        name: &[u8],
        is_directory: bool,
        excludes: &Patterns,
    ) -> bool {
        let top = self.top.as_os_str().as_encoded_bytes();
        let top = top.strip_suffix(b"/").unwrap_or(top);
        let below = join(&self.path_of(directory), name);
        let path = [top, b"/", &below].concat();
        excludes.matches(&path, is_directory) == Some(true)
    }

    /// Path of the top on the disk: the directory of a single file.
    pub fn top(&self) -> &std::path::Path {
        &self.top
    }

    /// Returns where a path below the top is on the disk.
    pub fn on_disk(&self, path: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(path))
    }

    /// Totals.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Directories that the pool cannot read: nothing below them is compared.
    pub fn take_damaged(&mut self) -> Vec<(Vec<u8>, StoreError)> {
        std::mem::take(&mut self.damaged)
    }

    /// Returns the number after this one.
    pub(crate) fn number_after(&self, number: Option<u64>) -> Option<u64> {
        let next = number.map_or(0, |number| number + 1);
        (next < self.rows.len() as u64).then_some(next)
    }

    /// Returns what a number stands for.
    pub(crate) fn get(&self, number: u64) -> Option<Numbered> {
        let row = self.rows.get(usize::try_from(number).ok()?)?;
        let directory = row.directory;
        Some(match row.place {
            DIRECTORY => Numbered::Names { directory },
            place => Numbered::File {
                directory,
                place: place as usize,
                len: row.len,
            },
        })
    }

    /// Returns the length of a file, 0 for a directory.
    pub(crate) fn len(&self, number: u64) -> u64 {
        let row = usize::try_from(number).ok().and_then(|n| self.rows.get(n));
        row.map_or(0, |row| row.len)
    }

    /// Returns the file that had an inode. If several devices have it, the first: the identity of
    /// the open file says whether it is meant.
    pub(crate) fn with_inode(&self, inode: u64) -> Option<u64> {
        let place = self.by_inode.partition_point(|(known, _)| *known < inode);
        let (found, number) = self.by_inode.get(place)?;
        (*found == inode).then_some(*number)
    }

    pub(crate) fn directory(&self, index: u32) -> Option<&Directory> {
        self.directories.get(index as usize)
    }

    /// Returns the directories from the top to this one.
    pub(crate) fn way_to(&self, index: u32) -> Vec<u32> {
        let mut way = vec![index];
        let mut at = self.directory(index).and_then(|directory| directory.parent);
        while let Some(index) = at {
            way.push(index);
            at = self.directory(index).and_then(|directory| directory.parent);
        }
        way.reverse();
        way
    }

    /// Returns the path of a directory below the top.
    pub(crate) fn path_of(&self, index: u32) -> Vec<u8> {
        let mut path = Vec::new();
        for index in self.way_to(index).into_iter().skip(1) {
            if let Some(directory) = self.directory(index) {
                path = join(&path, &directory.name);
            }
        }
        path
    }
}

/// Returns `directory/name` below the top, whose path is empty.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        _ => [directory, b"/", name].concat(),
    }
}
