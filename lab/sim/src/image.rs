//! A directory tree in memory: the contents of a disk at one moment. `disk` (the volatile state),
//! `pending` (the durable state) and `crash` (the state after a power loss) use it.
//!
//! Invariant: a copy shares everything unchanged. The hash covers what a program can see (names,
//! lengths, bytes, names that share a file), and only what is reachable from the top.

use crate::content::Content;
use crate::seed::mix;
use crate::slab::Slab;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A file, whatever its names.
pub(crate) type FileId = u32;
/// A directory; 0 is the top.
pub(crate) type DirId = u32;
/// The top directory.
pub(crate) const TOP: DirId = 0;

/// The target of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    File(FileId),
    Dir(DirId),
}

/// Names of one directory.
pub(crate) type Dir = BTreeMap<Arc<str>, Node>;

/// The contents of a disk at one moment; cheap to clone.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) dirs: Slab<Dir>,
    pub(crate) files: Slab<Content>,
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

impl Image {
    /// An empty top directory.
    pub fn new() -> Self {
        let mut dirs = Slab::new();
        dirs.push(Dir::new());
        Self {
            dirs,
            files: Slab::new(),
        }
    }

    /// Every file that has a name, with its length, sorted by path.
    pub fn files(&self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        self.collect(TOP, "", &mut files);
        files
    }

    /// The same of the files below a directory.
    pub fn files_below(&self, dir: &str) -> Vec<(String, u64)> {
        let mut files = self.files();
        files.retain(|(path, _)| path.strip_prefix(dir).is_some_and(|p| p.starts_with('/')));
        files
    }

    /// The bytes of a file.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        match self.find(path)? {
            Node::File(file) => Some(self.files.get(file).to_vec()),
            Node::Dir(_) => None,
        }
    }

    /// Equal for images that a program cannot tell apart.
    pub fn hash(&self) -> u64 {
        let mut seen = Vec::new();
        let hash = self.hash_dir(TOP, &mut seen);
        // Include shared files only if there are any: a write through one name shows in the other.
        seen.sort_unstable();
        let shared: BTreeSet<FileId> = seen
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
            .collect();
        shared
            .iter()
            .fold(hash, |hash, file| mix(hash, u64::from(*file)))
    }

    pub(crate) fn find(&self, path: &str) -> Option<Node> {
        let mut node = Node::Dir(TOP);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Node::Dir(dir) = node else { return None };
            node = *self.dirs.get(dir).get(name)?;
        }
        Some(node)
    }

    pub(crate) fn entry(&self, dir: DirId, name: &str) -> Option<Node> {
        self.dirs.get(dir).get(name).copied()
    }

    fn collect(&self, dir: DirId, prefix: &str, files: &mut Vec<(String, u64)>) {
        for (name, node) in self.dirs.get(dir).iter() {
            match *node {
                Node::File(file) => files.push((join(prefix, name), self.files.get(file).len())),
                Node::Dir(dir) => self.collect(dir, &join(prefix, name), files),
            }
        }
    }

    fn hash_dir(&self, dir: DirId, seen: &mut Vec<FileId>) -> u64 {
        self.dirs.get(dir).iter().fold(1, |hash, (name, node)| {
            let under = match *node {
                Node::File(file) => {
                    seen.push(file);
                    mix(2, self.files.get(file).hash())
                }
                Node::Dir(dir) => mix(3, self.hash_dir(dir, seen)),
            };
            mix(mix(hash, xxh3_64(name.as_bytes())), under)
        })
    }
}

/// Returns the path of `name` in the directory `dir`.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(names: &[(&str, FileId)]) -> Image {
        let mut image = Image::new();
        image.files.push(Content::from_bytes(b"same"));
        image.files.push(Content::from_bytes(b"same"));
        for (name, file) in names {
            image
                .dirs
                .get_mut(TOP)
                .insert((*name).into(), Node::File(*file));
        }
        image
    }

    #[test]
    fn the_hash_sees_names_bytes_and_shared_files() {
        assert_eq!(image(&[("a", 0)]).hash(), image(&[("a", 1)]).hash());
        assert_ne!(image(&[("a", 0)]).hash(), image(&[("b", 0)]).hash());
        assert_ne!(
            image(&[("a", 0), ("b", 1)]).hash(),
            image(&[("a", 0), ("b", 0)]).hash()
        );
        let mut other = image(&[("a", 0)]);
        other.files.get_mut(0).write(0, b"S");
        assert_ne!(other.hash(), image(&[("a", 0)]).hash());
        other.files.get_mut(1).write(0, b"S");
        assert_eq!(other.files(), [("a".to_owned(), 4)]);
    }
}
