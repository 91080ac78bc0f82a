//! The sources that the specimens are backups of.

use super::noise;
use super::restore::{Content, Objects};
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind, Timestamp};
use std::collections::BTreeMap;
use store::Lane;

const BLOCK: usize = 4096;

/// 301 blocks and a short one: two recipe levels, holes that nowhere fill a whole node, repeated
/// blocks.
pub fn image(seed: u64) -> Vec<u8> {
    let unique = noise(seed + 1, 12 * BLOCK);
    let mut bytes = Vec::new();
    for n in 0..301usize {
        let block = n * 7 % 12;
        match n {
            20..60 => bytes.extend([0; BLOCK]),
            _ => bytes.extend(&unique[block * BLOCK..(block + 1) * BLOCK]),
        }
    }
    bytes.extend(noise(seed + 2, 1000));
    bytes
}

/// The same image with a few blocks of its own, and one block less.
pub fn image_changed(seed: u64, first: &[u8]) -> Vec<u8> {
    let mut bytes = first[..first.len() - 1000].to_vec();
    bytes[5 * BLOCK..8 * BLOCK].copy_from_slice(&noise(seed + 3, 3 * BLOCK));
    bytes[280 * BLOCK..281 * BLOCK].fill(0);
    bytes
}

/// Bytes that compress a little, then a run of zeroes.
pub fn stream(seed: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = noise(seed + 4, 40_000)
        .iter()
        .enumerate()
        .map(|(n, b)| if n % 3 == 0 { *b } else { b & 1 })
        .collect();
    bytes.extend([0; 30_000]);
    bytes.extend(noise(seed + 5, 5000));
    bytes
}

/// A node of a file tree.
#[derive(Clone)]
pub enum Tree {
    /// A regular file.
    File(Vec<u8>),
    /// A directory.
    Directory(BTreeMap<String, Tree>),
    /// A symbolic link.
    Symlink(&'static str),
    /// A named pipe.
    Fifo,
}

fn directory<const N: usize>(entries: [(&str, Tree); N]) -> Tree {
    Tree::Directory(entries.map(|(name, node)| (name.to_owned(), node)).into())
}

/// A tree with small and large files, a deep path and a directory of several chunks.
pub fn tree(seed: u64) -> Tree {
    let many = (0..220).map(|n| (format!("entry-{n:04}"), Tree::Symlink("../somewhere/else")));
    let deep = directory([("bottom", Tree::File(noise(seed + 6, 3000)))]);
    let deep = (0..20).fold(deep, |below, n| {
        Tree::Directory([(format!("level{n}"), below)].into())
    });
    directory([
        ("big", Tree::File(noise(seed + 7, 26_000))),
        ("deep", deep),
        ("empty", Tree::File(Vec::new())),
        (
            "etc",
            directory([
                ("passwd", Tree::File(noise(seed + 8, 900))),
                ("shadow", Tree::File(noise(seed + 9, 600))),
            ]),
        ),
        ("link", Tree::Symlink("etc/passwd")),
        ("many", Tree::Directory(many.collect())),
        ("pipe", Tree::Fifo),
    ])
}

/// The same tree with one file changed and one added.
pub fn tree_changed(seed: u64, tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    if let Tree::Directory(top) = &mut tree {
        top.insert("new".to_owned(), Tree::File(noise(seed + 10, 9000)));
        if let Some(Tree::Directory(etc)) = top.get_mut("etc") {
            etc.insert("passwd".to_owned(), Tree::File(noise(seed + 11, 950)));
        }
    }
    tree
}

impl Tree {
    /// Stores the tree. Returns its root and every path with its contents.
    pub fn put(&self, lane: &mut Lane) -> (ObjectRoot, Objects) {
        let mut objects = Objects::new();
        let kind = self.put_node(lane, Vec::new(), &mut objects);
        let EntryKind::Directory { content } = kind else {
            panic!("a tree begins with a directory");
        };
        (content, objects)
    }

    fn put_node(&self, lane: &mut Lane, path: Vec<u8>, objects: &mut Objects) -> EntryKind {
        match self {
            Self::File(bytes) => {
                let content = lane.store_object(bytes, false).expect("store");
                objects.insert(path, Content::Bytes(bytes.clone()));
                let sparse = false;
                EntryKind::File { content, sparse }
            }
            Self::Directory(below) => {
                let mut entries = Vec::new();
                for (name, node) in below {
                    let path = [&path[..], b"/", name.as_bytes()].concat();
                    entries.push(entry(name, node.put_node(lane, path, objects)));
                }
                let bytes = Entry::encode_directory(&entries);
                let content = lane.store_object(&bytes, true).expect("store");
                objects.insert(path, Content::Directory(entries));
                EntryKind::Directory { content }
            }
            Self::Symlink(target) => EntryKind::Symlink {
                target: target.as_bytes().to_vec(),
            },
            Self::Fifo => EntryKind::Fifo,
        }
    }
}

/// Returns an entry with metadata of every kind.
pub fn entry(name: &str, kind: EntryKind) -> Entry {
    let time = Timestamp {
        seconds: 1_700_000_000,
        nanos: 123_456_789,
    };
    Entry {
        name: name.as_bytes().to_vec(),
        kind,
        mode: 0o640,
        uid: 1000,
        gid: 100,
        modified: time,
        changed: time,
        inode: name.len() as u64 + 1000,
        device: 64_512,
        links: 1,
        xattrs: vec![(b"user.note".to_vec(), name.as_bytes().to_vec())],
    }
}
