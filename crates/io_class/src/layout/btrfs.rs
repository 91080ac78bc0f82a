//! The classifier for btrfs: block groups of metadata, by the tree of chunks. `file_system`
//! attaches it.
//!
//! Invariant: unknown rather than wrong. Block groups of data, mixed ones, and striped ones are
//! unknown. The tree is read in bounded steps, again when its root moves.

use super::bytes::{array, byte, le16, le32, le64};
use super::ext::Step;
use super::source::Meter;
use crate::facts::Contents;
use std::collections::BTreeSet;

const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK_BYTES: usize = 4096;
const MAGIC: u64 = 0x4d5f_5366_5248_425f;
const CHUNK_ITEM: u8 = 228;
const HEADER_BYTES: usize = 101;
const KEY_BYTES: usize = 17;
const DATA: u64 = 1;
const METADATA: u64 = 2 | 4;
/// Profiles that spread a chunk over devices.
const STRIPED: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;
const CHUNKS_MAX: usize = 1 << 16;
const NODES_MAX: usize = 1 << 14;

/// A chunk's part on this device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Chunk {
    start: u64,
    end: u64,
    logical: u64,
    kind: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    chunk_root: u64,
    device: u64,
    node_bytes: u32,
    identity: [u8; 16],
}

impl Head {
    fn decode(sb: &[u8]) -> Option<Self> {
        let head = Self {
            chunk_root: le64(sb, 88)?,
            device: le64(sb, 201)?,
            node_bytes: le32(sb, 148)?,
            identity: array(sb, 32)?,
        };
        let is_sound = le64(sb, 64)? == MAGIC
            && (4096..=65536).contains(&head.node_bytes)
            && head.node_bytes.is_power_of_two();
        is_sound.then_some(head)
    }
}

/// See the module.
pub struct Btrfs {
    head: Head,
    chunks: Vec<Chunk>,
    /// Chunks that the current reading has found: they replace the others at its end.
    found: BTreeSet<Chunk>,
    nodes: Vec<u64>,
    visited: BTreeSet<u64>,
    is_head_dirty: bool,
}

impl Btrfs {
    /// Looks at the superblock.
    pub fn probe(meter: &mut Meter<'_>) -> Option<Self> {
        let sb = meter.read(SUPERBLOCKS[0], SUPERBLOCK_BYTES)?;
        let mut btrfs = Self {
            head: Head::decode(&sb)?,
            chunks: Vec::new(),
            found: BTreeSet::new(),
            nodes: Vec::new(),
            visited: BTreeSet::new(),
            is_head_dirty: false,
        };
        btrfs.begin(&sb);
        Some(btrfs)
    }

    /// Begins with the chunks that the superblock names: the tree of chunks is in them.
    fn begin(&mut self, sb: &[u8]) {
        let len = le32(sb, 160).unwrap_or_default().min(2048) as usize;
        let mut rest = sb.get(811..811 + len).unwrap_or_default();
        self.found.clear();
        self.visited.clear();
        while let Some(chunk) = rest.get(KEY_BYTES..) {
            let logical = le64(rest, 9).unwrap_or_default();
            self.add(logical, chunk);
            let stripes = usize::from(le16(chunk, 44).unwrap_or_default());
            rest = chunk.get(48 + 32 * stripes..).unwrap_or_default();
        }
        self.chunks = self.found.iter().cloned().collect();
        self.nodes = vec![self.head.chunk_root];
    }

    fn add(&mut self, logical: u64, chunk: &[u8]) -> Option<()> {
        let (len, kind) = (le64(chunk, 0)?, le64(chunk, 24)?);
        for n in 0..usize::from(le16(chunk, 44)?) {
            let (device, start) = (le64(chunk, 48 + 32 * n)?, le64(chunk, 56 + 32 * n)?);
            let end = start.checked_add(len)?;
            logical.checked_add(len)?;
            if device == self.head.device && self.found.len() < CHUNKS_MAX {
                self.found.insert(Chunk {
                    start,
                    end,
                    logical,
                    kind,
                });
            }
        }
        Some(())
    }

    fn read_node(&mut self, meter: &mut Meter<'_>, logical: u64) -> Option<()> {
        if self.visited.len() >= NODES_MAX || !self.visited.insert(logical) {
            return None;
        }
        let place = self.found.iter().find_map(|chunk| {
            let inside = logical.checked_sub(chunk.logical)?;
            let len = chunk.end - chunk.start;
            let is_here = inside < len && chunk.kind & STRIPED == 0;
            is_here.then_some(chunk.start + inside)
        })?;
        let node = meter.read(place, self.head.node_bytes as usize)?;
        if le64(&node, 48)? != logical || array(&node, 32)? != self.head.identity {
            return None;
        }
        let (items, level) = (le32(&node, 96)? as usize, byte(&node, 100)?);
        for n in 0..items.min(node.len() / 25) {
            if level > 0 {
                let child = le64(&node, HEADER_BYTES + 33 * n + KEY_BYTES)?;
                if self.nodes.len() < NODES_MAX {
                    self.nodes.push(child);
                }
                continue;
            }
            let item = HEADER_BYTES + 25 * n;
            if byte(&node, item + 8)? == CHUNK_ITEM {
                let start = HEADER_BYTES + le32(&node, item + KEY_BYTES)? as usize;
                let logical = le64(&node, item + 9)?;
                self.add(logical, node.get(start..)?);
            }
        }
        Some(())
    }

    /// Reads a little.
    pub fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        if self.is_head_dirty {
            self.is_head_dirty = false;
            let sb = meter
                .read(SUPERBLOCKS[0], SUPERBLOCK_BYTES)
                .unwrap_or_default();
            match Head::decode(&sb) {
                Some(head) if head.identity == self.head.identity => {
                    if head != self.head {
                        self.head = head;
                        self.begin(&sb);
                    }
                }
                _ => return Step::Lost,
            }
        } else if let Some(node) = self.nodes.pop() {
            let _ = self.read_node(meter, node);
            if self.nodes.is_empty() {
                self.chunks = self.found.iter().cloned().collect();
            }
        } else {
            return Step::Idle;
        }
        Step::More
    }

    /// Notes a write.
    pub fn wrote(&mut self, offset_bytes: u64, len_bytes: u64) {
        let end = offset_bytes.saturating_add(len_bytes);
        if offset_bytes < SUPERBLOCKS[0] + SUPERBLOCK_BYTES as u64 && end > SUPERBLOCKS[0] {
            self.is_head_dirty = true;
        }
    }

    /// Contents at an offset, and the bytes from there that are alike.
    pub fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        for start in SUPERBLOCKS {
            let place = start..start + SUPERBLOCK_BYTES as u64;
            if place.contains(&offset_bytes) {
                return (Contents::Metadata, place.end - offset_bytes);
            }
        }
        let next_superblock = SUPERBLOCKS.into_iter().find(|start| *start > offset_bytes);
        let mut end = next_superblock.unwrap_or(u64::MAX);
        let next = self
            .chunks
            .partition_point(|chunk| chunk.start <= offset_bytes);
        if let Some(chunk) = self.chunks.get(next) {
            end = end.min(chunk.start);
        }
        let chunk = next.checked_sub(1).and_then(|n| self.chunks.get(n));
        let chunk = chunk.filter(|chunk| offset_bytes < chunk.end);
        let Some(chunk) = chunk else {
            return (Contents::Unknown, end - offset_bytes);
        };
        end = end.min(chunk.end);
        let is_metadata = chunk.kind & METADATA != 0 && chunk.kind & (DATA | STRIPED) == 0;
        let contents = match is_metadata {
            true => Contents::Metadata,
            false => Contents::Unknown,
        };
        (contents, end - offset_bytes)
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let chunks = self.chunks.capacity() + self.found.len();
        (chunks * size_of::<Chunk>() + (self.nodes.capacity() + self.visited.len()) * 16) as u64
    }
}
