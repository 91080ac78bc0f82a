//! Sources of backups in histories: small contents that change a little and repeat themselves.
//! `process` and `examine` use them.
//!
//! Invariant: [`Source::put`] stores the same bytes the same way each time, whatever the lanes;
//! [`Source::compare`] accepts only these bytes.

use super::ops::What;
use crate::Seed;
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::SnapshotKind;
use format::tree::{Entry, EntryKind, Timestamp};
use std::collections::BTreeMap;
use store::{Lane, LaneOptions, ObjectBuilder, Pool, Result, WriteSession};

const BLOCK_LOG2: u8 = 12;
const BLOCK: usize = 1 << BLOCK_LOG2;

/// A source.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// A disk image.
    Image(Vec<u8>),
    /// A stream.
    Stream(Vec<u8>),
    /// A directory.
    Tree(BTreeMap<String, Node>),
}

/// An entry of a tree.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File(Vec<u8>),
    /// A symbolic link.
    Link(String),
    /// A directory.
    Directory(BTreeMap<String, Node>),
}

impl Source {
    /// Creates the first state.
    pub fn new(what: What, seed: &mut Seed) -> Self {
        match what {
            What::Image => {
                let mut bytes = noise(seed, 3 * BLOCK);
                // A hole, a repeated block, and a tail that is no whole block.
                bytes.extend([0; BLOCK]);
                bytes.extend_from_within(..BLOCK);
                bytes.extend(text(seed, 1500));
                Self::Image(bytes)
            }
            What::Stream => {
                let mut bytes = text(seed, 6000);
                bytes.extend(noise(seed, 9000));
                Self::Stream(bytes)
            }
            What::Tree => {
                let below = [
                    ("a", Node::File(noise(seed, 700))),
                    ("b", Node::Link("../top".to_owned())),
                ];
                let below = below.map(|(name, node)| (name.to_owned(), node));
                let top = [
                    ("below", Node::Directory(below.into())),
                    ("empty", Node::File(Vec::new())),
                    ("large", Node::File(noise(seed, 7000))),
                    ("top", Node::File(text(seed, 900))),
                ];
                Self::Tree(top.map(|(name, node)| (name.to_owned(), node)).into())
            }
        }
    }

    /// Changes it a little.
    pub fn change(&mut self, seed: &mut Seed) {
        match self {
            Self::Image(bytes) => {
                let blocks = (bytes.len() / BLOCK) as u64;
                let at = seed.below(blocks) as usize * BLOCK;
                let new = match seed.below(4) {
                    0 => vec![0; BLOCK],
                    1 => {
                        let other = seed.below(blocks) as usize * BLOCK;
                        bytes[other..other + BLOCK].to_vec()
                    }
                    _ => noise(seed, BLOCK),
                };
                bytes[at..at + BLOCK].copy_from_slice(&new);
                let tail = noise(seed, 300);
                let from = bytes.len() - tail.len();
                bytes[from..].copy_from_slice(&tail);
            }
            Self::Stream(bytes) => {
                let at = seed.below(bytes.len() as u64) as usize;
                let len = 1 + seed.below(600) as usize;
                let new = noise(seed, len);
                bytes.truncate(16_000);
                let at = at.min(bytes.len());
                bytes.splice(at..at, new);
            }
            Self::Tree(top) => {
                if let Some(Node::Directory(below)) = top.get_mut("below") {
                    let len = 200 + seed.below(900) as usize;
                    let name = format!("{:02}", seed.below(4));
                    below.insert(name, Node::File(noise(seed, len)));
                }
                if seed.chance(128)
                    && let Some(Node::File(bytes)) = top.get_mut("large")
                {
                    let at = seed.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1;
                }
            }
        }
    }

    /// Kind of its snapshots.
    pub fn kind(&self) -> SnapshotKind {
        match self {
            Self::Image(_) => SnapshotKind::Image,
            Self::Stream(_) => SnapshotKind::Stream,
            Self::Tree(_) => SnapshotKind::Tree,
        }
    }

    /// Stores it through the session's lane, or alternately through `lanes` others.
    pub fn put(
        &self,
        session: &mut WriteSession,
        lanes: usize,
        options: LaneOptions,
    ) -> Result<ObjectRoot> {
        let extra = (0..lanes).map(|_| session.lane(options));
        let extra: Result<Vec<Lane>> = extra.collect();
        let mut turns = Turns {
            extra: extra?,
            turn: 0,
            session,
        };
        let root = match self {
            Self::Image(bytes) => turns.put_bytes(bytes, Layout::Fixed(BLOCK_LOG2), false)?,
            Self::Stream(bytes) => turns.put_bytes(bytes, Layout::Variable, false)?,
            Self::Tree(top) => turns.put_directory(top)?,
        };
        let Turns { extra, session, .. } = turns;
        for lane in extra {
            session.retire(lane)?;
        }
        Ok(root)
    }

    /// Restores it and returns the difference.
    pub fn compare(&self, pool: &Pool, root: &ObjectRoot) -> std::result::Result<(), String> {
        match self {
            Self::Image(bytes) | Self::Stream(bytes) => compare_bytes(pool, root, bytes),
            Self::Tree(top) => compare_directory(pool, root, top),
        }
    }
}

/// Lanes that are used alternately.
struct Turns<'a> {
    session: &'a mut WriteSession,
    extra: Vec<Lane>,
    turn: usize,
}

impl Turns<'_> {
    fn next(&mut self) -> &mut Lane {
        if self.extra.is_empty() {
            return self.session.main();
        }
        self.turn = (self.turn + 1) % self.extra.len();
        &mut self.extra[self.turn]
    }

    fn put_bytes(&mut self, bytes: &[u8], layout: Layout, metadata: bool) -> Result<ObjectRoot> {
        let mut builder = ObjectBuilder::new(layout);
        let mut rest = bytes;
        while !rest.is_empty() {
            let lane = self.next();
            let len = match layout {
                Layout::Variable => lane.splitter().next_len(rest),
                Layout::Fixed(log2) => 1 << log2,
            };
            let (piece, later) = rest.split_at(len.clamp(1, rest.len()));
            let mut chunk = piece.to_vec();
            if layout != Layout::Variable {
                chunk.resize(len, 0);
            }
            let fingerprint = match metadata {
                true => lane.store_node(&chunk)?,
                false => lane.store_chunk(&chunk)?,
            };
            builder.push(fingerprint, piece.len() as u64, &mut |node| {
                self.next().store_node(node)
            })?;
            rest = later;
        }
        builder.finish(&mut |node| self.next().store_node(node))
    }

    fn put_directory(&mut self, names: &BTreeMap<String, Node>) -> Result<ObjectRoot> {
        let mut entries = Vec::new();
        for (name, node) in names {
            let kind = match node {
                Node::File(bytes) => EntryKind::File {
                    content: self.put_bytes(bytes, Layout::Variable, false)?,
                    sparse: false,
                },
                Node::Link(target) => EntryKind::Symlink {
                    target: target.clone().into_bytes(),
                },
                Node::Directory(names) => EntryKind::Directory {
                    content: self.put_directory(names)?,
                },
            };
            entries.push(entry(name, kind));
        }
        let bytes = Entry::encode_directory(&entries);
        self.put_bytes(&bytes, Layout::Variable, true)
    }
}

fn entry(name: &str, kind: EntryKind) -> Entry {
    let time = Timestamp {
        seconds: 1_700_000_000,
        nanos: 42,
    };
    Entry {
        name: name.as_bytes().to_vec(),
        kind,
        mode: 0o640,
        uid: 1000,
        gid: 100,
        modified: time,
        changed: time,
        inode: 7,
        device: 8,
        links: 1,
        xattrs: vec![(b"user.name".to_vec(), name.as_bytes().to_vec())],
    }
}

fn compare_bytes(pool: &Pool, root: &ObjectRoot, bytes: &[u8]) -> std::result::Result<(), String> {
    let read = pool.reader().read_whole(root, 1 << 20);
    let read = read.map_err(|e| format!("does not restore: {e}"))?;
    match read == bytes {
        true => Ok(()),
        false => Err(format!("{} bytes differ from {}", read.len(), bytes.len())),
    }
}

fn compare_directory(
    pool: &Pool,
    root: &ObjectRoot,
    names: &BTreeMap<String, Node>,
) -> std::result::Result<(), String> {
    let entries = pool.reader().directory(root);
    let entries = entries.map_err(|e| format!("a directory does not restore: {e}"))?;
    if entries.len() != names.len() {
        return Err(format!("{} names, not {}", entries.len(), names.len()));
    }
    for (found, (name, node)) in entries.iter().zip(names) {
        if *found != entry(name, found.kind.clone()) {
            return Err(format!("{name}: another name or other metadata"));
        }
        match (&found.kind, node) {
            (EntryKind::File { content, .. }, Node::File(bytes)) => {
                compare_bytes(pool, content, bytes).map_err(|e| format!("{name} {e}"))?;
            }
            (EntryKind::Directory { content }, Node::Directory(names)) => {
                compare_directory(pool, content, names)?;
            }
            (EntryKind::Symlink { target }, Node::Link(to)) if target == to.as_bytes() => {}
            _ => return Err(format!("{name}: another kind")),
        }
    }
    Ok(())
}

/// Bytes that do not compress.
fn noise(seed: &mut Seed, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| seed.draw().to_le_bytes());
    words.take(len).collect()
}

/// Bytes that compress well.
fn text(seed: &mut Seed, len: usize) -> Vec<u8> {
    let words = noise(seed, 48);
    words.iter().copied().cycle().take(len).collect()
}
