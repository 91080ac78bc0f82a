//! Nodes as a broken or malicious writer makes them. Each step of the input stores one.

use format::bytes::Reader as Bytes;
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use format::snapshot::SnapshotKind;
use format::tree::{Entry, EntryKind, Timestamp};
use store::Lane;
use units::Fingerprint;

/// The nodes made so far.
#[derive(Default)]
pub struct Crafted {
    prints: Vec<Fingerprint>,
    roots: Vec<ObjectRoot>,
    /// Objects for which snapshots will be committed.
    pub objects: Vec<(ObjectRoot, SnapshotKind)>,
}

impl Crafted {
    /// Makes a chunk, a node, a directory or a snapshot. Returns `None` if the steps end within it.
    pub fn step(&mut self, lane: &mut Lane, r: &mut Bytes<'_>) -> store::Result<Option<()>> {
        let Ok(action) = r.u8() else {
            return Ok(None);
        };
        let made = match action % 6 {
            0 => r
                .sized()
                .ok()
                .map(<[u8]>::to_vec)
                .map(|bytes| lane.store_node(&bytes)),
            1 => chunk(r).map(|bytes| lane.store_chunk(&bytes)),
            2 | 3 => self.recipe(r).map(|node| lane.store_node(&node.encode())),
            4 => {
                let Some(root) = self.root(r) else {
                    return Ok(None);
                };
                self.roots.push(root);
                let kind = match action / 6 % 3 {
                    0 => SnapshotKind::Image,
                    1 => SnapshotKind::Stream,
                    _ => SnapshotKind::Tree,
                };
                self.objects.push((root, kind));
                return Ok(Some(()));
            }
            _ => {
                let Some(bytes) = self.directory(r) else {
                    return Ok(None);
                };
                let root = lane.store_object(&bytes, true)?;
                self.roots.push(root);
                self.objects.push((root, SnapshotKind::Tree));
                return Ok(Some(()));
            }
        };
        let Some(made) = made else {
            return Ok(None);
        };
        self.prints.push(made?);
        Ok(Some(()))
    }

    fn print(&self, number: u8) -> Fingerprint {
        match number {
            0xff => Fingerprint::HOLE,
            0xfe => Fingerprint([0xfe; 32]),
            n => {
                let made = self.prints.len().max(1);
                self.prints
                    .get(usize::from(n) % made)
                    .copied()
                    .unwrap_or_default()
            }
        }
    }

    fn recipe(&self, r: &mut Bytes<'_>) -> Option<RecipeNode> {
        let (count, level, layout) = (r.u8().ok()? % 20, r.u8().ok()?, layout(r.u8().ok()?));
        let mut node = RecipeNode {
            level: level % 10,
            layout,
            children: Vec::new(),
            lengths: Vec::new(),
        };
        for _ in 0..count {
            node.children.push(self.print(r.u8().ok()?));
            if layout == Layout::Variable {
                node.lengths.push(r.varint().ok()?);
            }
        }
        Some(node)
    }

    fn root(&self, r: &mut Bytes<'_>) -> Option<ObjectRoot> {
        Some(ObjectRoot {
            fingerprint: self.print(r.u8().ok()?),
            level: r.u8().ok()? % 9,
            layout: layout(r.u8().ok()?),
            len: r.varint().ok()?,
        })
    }

    /// Returns a directory whose entries are objects made before.
    fn directory(&self, r: &mut Bytes<'_>) -> Option<Vec<u8>> {
        let mut entries = Vec::new();
        for n in 0..r.u8().ok()? % 12 {
            let number = usize::from(r.u8().ok()?);
            let content = *self.roots.get(number / 2 % self.roots.len().max(1))?;
            let kind = match number % 2 {
                0 => EntryKind::Directory { content },
                _ => EntryKind::File {
                    content,
                    sparse: false,
                },
            };
            entries.push(Entry {
                name: vec![b'a' + n],
                kind,
                mode: 0o600,
                uid: 0,
                gid: 0,
                modified: Timestamp::default(),
                changed: Timestamp::default(),
                inode: 1,
                device: 1,
                links: 1,
                xattrs: Vec::new(),
            });
        }
        Some(Entry::encode_directory(&entries))
    }
}

/// Returns up to 4 KiB of a short pattern; full chunks for fixed layouts.
fn chunk(r: &mut Bytes<'_>) -> Option<Vec<u8>> {
    let (len, pattern) = (r.u8().ok()?, r.sized().ok()?);
    let len = match len {
        0 => 4096,
        n => usize::from(n),
    };
    let pattern = if pattern.is_empty() { &[1] } else { pattern };
    Some(pattern.iter().copied().cycle().take(len).collect())
}

fn layout(n: u8) -> Layout {
    match n % 8 {
        0..=3 => Layout::Variable,
        n => Layout::Fixed(8 + n),
    }
}
