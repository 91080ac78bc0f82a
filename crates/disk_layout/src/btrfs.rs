//! The map of btrfs: block groups of metadata, by the tree of chunks. `file_system`
//! attaches it.
//!
//! Invariant: unknown rather than wrong. Block groups of data, mixed ones, and striped ones are
//! unknown. The tree is read in bounded steps, again when its root moves.

use super::budget::{Shed, tree_bytes};
use super::bytes::{array, byte, le16, le32, le64};
use super::file_system::{FileSystem, Interest, Probed, Step};
use super::source::Meter;
use crate::contents::Contents;
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
const NODES_MAX: usize = 1 << 14;
/// Most copies of a chunk that are looked at: two are usual on one device.
const STRIPES_MAX: u16 = 32;

/// A chunk's part on this device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Chunk {
    logical: u64,
    start: u64,
    end: u64,
    kind: u64,
}

impl Chunk {
    fn is_metadata(&self) -> bool {
        self.kind & METADATA != 0 && self.kind & (DATA | STRIPED) == 0
    }
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
    /// Sorted by where they start.
    chunks: Vec<Chunk>,
    /// Chunks that the current reading has found: they replace the others at its end.
    found: BTreeSet<Chunk>,
    nodes: Vec<u64>,
    visited: BTreeSet<u64>,
    known_bytes: u64,
    is_head_dirty: bool,
    memory_max: u64,
    /// Chunks and nodes that were left out for lack of memory.
    shed: Shed,
}

impl Btrfs {
    /// Looks at the superblock. Fails with the least memory that a map takes.
    pub fn probe(meter: &mut Meter<'_>, memory_max: u64) -> Probed<Self> {
        let sb = meter.read(SUPERBLOCKS[0], SUPERBLOCK_BYTES)?;
        let head = Head::decode(&sb)?;
        let least = 8 << 10;
        if least > memory_max / 2 {
            return Some(Err(least * 2));
        }
        let mut btrfs = Self {
            head,
            chunks: Vec::new(),
            found: BTreeSet::new(),
            nodes: Vec::new(),
            visited: BTreeSet::new(),
            known_bytes: 0,
            is_head_dirty: false,
            memory_max,
            shed: Shed::default(),
        };
        btrfs.begin(&sb);
        Some(Ok(btrfs))
    }

    /// The chunks that were found replace those known.
    fn take_found(&mut self) {
        // Freed first: both together would take twice the memory.
        self.chunks = Vec::new();
        self.chunks = self.found.iter().cloned().collect();
        self.chunks.sort_unstable_by_key(|chunk| chunk.start);
        let mut end = 0;
        // Chunks do not overlap; of hostile ones, the first counts.
        self.chunks.retain(|chunk| {
            let is_apart = chunk.start >= end;
            end = end.max(chunk.end);
            is_apart
        });
        let known = self.chunks.iter().filter(|chunk| chunk.is_metadata());
        self.known_bytes = known.map(|chunk| chunk.end - chunk.start).sum();
    }

    /// Nothing more is noted: found chunks are kept twice for a moment.
    fn is_full(&self) -> bool {
        let found = self.found.len() * size_of::<Chunk>();
        self.heap_bytes() + found as u64 >= self.memory_max / 8 * 7
    }

    /// Begins with the chunks that the superblock names: the tree of chunks is in them.
    fn begin(&mut self, sb: &[u8]) {
        let len = le32(sb, 160).unwrap_or_default().min(2048) as usize;
        let mut rest = sb.get(811..811 + len).unwrap_or_default();
        self.found.clear();
        self.visited.clear();
        self.shed = Shed::default();
        while let Some(chunk) = rest.get(KEY_BYTES..) {
            let logical = le64(rest, 9).unwrap_or_default();
            self.add(logical, chunk);
            let stripes = usize::from(le16(chunk, 44).unwrap_or_default());
            rest = chunk.get(48 + 32 * stripes..).unwrap_or_default();
        }
        self.take_found();
        self.nodes = vec![self.head.chunk_root];
    }

    fn add(&mut self, logical: u64, chunk: &[u8]) -> Option<()> {
        let (len, kind) = (le64(chunk, 0)?, le64(chunk, 24)?);
        for n in 0..usize::from(le16(chunk, 44)?.min(STRIPES_MAX)) {
            let (device, start) = (le64(chunk, 48 + 32 * n)?, le64(chunk, 56 + 32 * n)?);
            let end = start.checked_add(len)?;
            logical.checked_add(len)?;
            if device != self.head.device || start == end {
                continue;
            }
            if self.is_full() {
                self.shed.note(2 * size_of::<Chunk>());
                continue;
            }
            self.found.insert(Chunk {
                logical,
                start,
                end,
                kind,
            });
        }
        Some(())
    }

    fn read_node(&mut self, meter: &mut Meter<'_>, logical: u64) -> Option<()> {
        if self.visited.len() >= NODES_MAX || !self.visited.insert(logical) {
            return None;
        }
        let most = Chunk {
            logical,
            start: u64::MAX,
            end: u64::MAX,
            kind: u64::MAX,
        };
        let chunk = self.found.range(..=most).next_back()?;
        let inside = logical.checked_sub(chunk.logical)?;
        if inside >= chunk.end - chunk.start || chunk.kind & STRIPED != 0 {
            return None;
        }
        let place = chunk.start.checked_add(inside)?;
        let node = meter.read(place, self.head.node_bytes as usize)?;
        if le64(&node, 48)? != logical || array(&node, 32)? != self.head.identity {
            return None;
        }
        let (items, level) = (le32(&node, 96)? as usize, byte(&node, 100)?);
        for n in 0..items.min(node.len() / 25) {
            meter.spend(u64::from(STRIPES_MAX) / 16);
            if level > 0 {
                let child = le64(&node, HEADER_BYTES + 33 * n + KEY_BYTES)?;
                if self.nodes.len() >= NODES_MAX || self.is_full() {
                    self.shed.note(node.len());
                } else {
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
}

impl FileSystem for Btrfs {
    fn at(&self, offset_bytes: u64) -> (Contents, u64) {
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
        let contents = match chunk.is_metadata() {
            true => Contents::Metadata,
            false => Contents::Unknown,
        };
        (contents, end - offset_bytes)
    }

    fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) {
        let interest = self.interest(offset_bytes, len_bytes, None);
        self.is_head_dirty |= interest != Interest::None;
    }

    fn interest(&self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) -> Interest {
        let end = offset_bytes.saturating_add(len_bytes);
        let is_before = offset_bytes < SUPERBLOCKS[0] + SUPERBLOCK_BYTES as u64;
        Interest::changed_if(is_before && end > SUPERBLOCKS[0])
    }

    fn step(&mut self, meter: &mut Meter<'_>) -> Step {
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
                self.visited.clear();
                self.nodes.shrink_to_fit();
                self.take_found();
                self.found.clear();
            }
        } else {
            return Step::Idle;
        }
        Step::More
    }

    fn set_memory(&mut self, memory_max: u64) {
        self.memory_max = memory_max;
    }

    fn heap_bytes(&self) -> u64 {
        let bytes = self.chunks.capacity() * size_of::<Chunk>()
            + tree_bytes(self.found.len(), size_of::<Chunk>())
            + self.nodes.capacity() * 8
            + tree_bytes(self.visited.len(), 8);
        bytes as u64
    }

    fn shed(&self) -> Shed {
        self.shed
    }

    fn known_bytes(&self) -> u64 {
        self.known_bytes
    }
}
