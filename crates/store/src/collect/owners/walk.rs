//! Walks the recipes of all owners at once: what several owners share is read once, with all of
//! their bits. `owners` calls this.
//!
//! ```text
//! directories, by depth -> objects -> queue of each level -> batch in recipe order -> level below
//!                                      level 0: owners of a chunk
//! ```
//!
//! Invariant: memory and the number of references are bounded. A node that comes again after its
//! batch is read again, with the owners that are new. Damage is skipped.

use super::OWNERS_MAX;
use super::choosing::Owner;
use super::table::OwnerTable;
use crate::collect::GcStep;
use crate::space::below;
use chunk_store::chunk_map::FingerprintMap;
use format::recipe::{LEVEL_MAX, Layout, ObjectRoot};
use read_path::Reader;
use std::cmp::Reverse;
use std::mem::take;
use units::Fingerprint;

const LEVELS: usize = LEVEL_MAX as usize + 1;
/// Memory of a queued node or directory with its slot in a map, bytes.
const QUEUED_BYTES: usize = 160;

#[derive(Clone, Copy)]
struct Node {
    fingerprint: Fingerprint,
    layout: Layout,
    owners: u32,
    order: u64,
}

/// The queue of one level.
#[derive(Default)]
struct Level {
    waiting: Vec<Node>,
    /// Places in `waiting`.
    known: FingerprintMap<usize>,
    /// The batch in processing, the first node last.
    batch: Vec<Node>,
    /// Number of children that were found on this level.
    found: u32,
}

impl Level {
    fn push(&mut self, node: Node) {
        let next = self.waiting.len();
        let at = *self.known.entry(node.fingerprint).or_insert(next);
        match self.waiting.get_mut(at) {
            Some(known) => {
                known.owners |= node.owners;
                known.order = known.order.min(node.order);
            }
            None => self.waiting.push(node),
        }
    }

    /// Returns the next node in recipe order.
    fn pop(&mut self) -> Option<Node> {
        if self.batch.is_empty() {
            self.batch = take(&mut self.waiting);
            self.known.clear();
            self.batch.sort_unstable_by_key(|node| Reverse(node.order));
        }
        self.batch.pop()
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.batch.len()
    }
}

/// Directories of one depth.
#[derive(Default)]
struct Depth {
    waiting: Vec<(ObjectRoot, u32)>,
    known: FingerprintMap<usize>,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Walk {
    depth: Depth,
    below: Depth,
    /// Next directory of `depth`.
    next: usize,
    /// Owners with which a directory was listed.
    listed: FingerprintMap<u32>,
    levels: [Level; LEVELS],
    objects: u32,
    queued_max: usize,
    references: u64,
    references_max: u64,
}

impl Walk {
    pub fn new(bytes_max: usize, references_max: u64) -> Self {
        Self {
            // Three queues can be long at a time: two levels, or two depths and the list.
            queued_max: bytes_max / QUEUED_BYTES / 3,
            references_max,
            ..Self::default()
        }
    }

    /// Adds an owner. 0 is the newest.
    pub fn add(&mut self, table: &mut OwnerTable, owner: &Owner, number: usize) {
        debug_assert!(number < OWNERS_MAX);
        let owners = (1 << 31) >> number;
        self.push(table, &owner.root, owner.is_tree, owners);
    }

    pub fn memory_bytes(&self) -> usize {
        let queued: usize = self.levels.iter().map(Level::len).sum();
        let depths = self.depth.waiting.len() + self.below.waiting.len();
        (queued + depths + self.listed.len()) * QUEUED_BYTES
    }

    /// Ends the walk and frees its memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Follows about this many references.
    pub fn step(&mut self, reader: &Reader, table: &mut OwnerTable, references: u64) -> GcStep {
        let until = self.references.saturating_add(references);
        while self.references < until {
            if self.references >= self.references_max {
                return GcStep::Done;
            }
            match self.next_level() {
                Some(level) => self.expand(reader, table, level),
                None if self.list(reader, table) => {}
                None => return GcStep::Done,
            }
        }
        GcStep::Working
    }

    fn push(&mut self, table: &mut OwnerTable, root: &ObjectRoot, is_tree: bool, owners: u32) {
        if root.len == 0 || root.fingerprint.is_hole() {
            return;
        }
        if is_tree {
            return self.push_directory(root, owners);
        }
        let order = u64::from(self.objects) << 32;
        self.objects = self.objects.saturating_add(1);
        let node = Node {
            fingerprint: root.fingerprint,
            layout: root.layout,
            owners,
            order,
        };
        self.push_node(table, usize::from(root.level), node);
    }

    fn push_directory(&mut self, root: &ObjectRoot, owners: u32) {
        let Depth { waiting, known } = &mut self.below;
        if let Some(at) = known.get(&root.fingerprint) {
            if let Some((_, known)) = waiting.get_mut(*at) {
                *known |= owners;
            }
        } else if waiting.len() < self.queued_max {
            known.insert(root.fingerprint, waiting.len());
            waiting.push((*root, owners));
        }
        // Else: what is below more directories than that has no known owner.
    }

    fn push_node(&mut self, table: &mut OwnerTable, level: usize, node: Node) {
        match level {
            0 => table.add(&node.fingerprint, node.owners, node.order),
            _ => {
                if let Some(level) = self.levels.get_mut(level) {
                    level.push(node);
                }
            }
        }
    }

    /// Returns the lowest level that is full or has a batch. If there are no more directories,
    /// otherwise the highest that is not empty.
    fn next_level(&self) -> Option<usize> {
        let max = self.queued_max.max(1);
        let is_due = |level: &Level| level.waiting.len() >= max || !level.batch.is_empty();
        let due = self.levels.iter().position(is_due);
        let has_directories =
            self.next < self.depth.waiting.len() || !self.below.waiting.is_empty();
        let highest = || self.levels.iter().rposition(|level| level.len() > 0);
        due.or_else(|| highest().filter(|_| !has_directories))
    }

    /// Reads a node of the level, if it has one.
    fn expand(&mut self, reader: &Reader, table: &mut OwnerTable, number: usize) {
        self.references += 1;
        let Some(node) = self.levels.get_mut(number).and_then(Level::pop) else {
            return;
        };
        let Ok(read) = reader.recipe_node(&node.fingerprint) else {
            return;
        };
        if (usize::from(read.level), read.layout) != (number, node.layout) {
            return;
        }
        let children = read.children.len();
        self.references += children as u64;
        let below = number - 1;
        let object = node.order & !u64::from(u32::MAX);
        let Some(level) = self.levels.get_mut(below) else {
            return;
        };
        let first = level.found;
        level.found = first.saturating_add(children as u32);
        for (fingerprint, child) in read.children.into_iter().zip(first..) {
            if !fingerprint.is_hole() {
                let order = object | u64::from(child);
                let node = Node {
                    fingerprint,
                    order,
                    ..node
                };
                self.push_node(table, below, node);
            }
        }
    }

    /// Lists the next directory. Returns false if there is none.
    fn list(&mut self, reader: &Reader, table: &mut OwnerTable) -> bool {
        if self.next >= self.depth.waiting.len() {
            self.depth = take(&mut self.below);
            self.depth.known = FingerprintMap::default();
            self.next = 0;
        }
        let Some((root, owners)) = self.depth.waiting.get(self.next).copied() else {
            self.depth = Depth::default();
            self.listed = FingerprintMap::default();
            return false;
        };
        self.next += 1;
        self.references += 1;
        let before = self.listed.get(&root.fingerprint).copied().unwrap_or(0);
        let new = owners & !before;
        if new == 0 {
            return true;
        }
        if before > 0 || self.listed.len() < self.queued_max {
            self.listed.insert(root.fingerprint, before | new);
        }
        let Ok(entries) = reader.directory(&root) else {
            return true;
        };
        for entry in entries {
            self.references += 1;
            if let Some((object, is_tree)) = below(&entry) {
                self.push(table, &object, is_tree, new);
            }
        }
        true
    }
}
