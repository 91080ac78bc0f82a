//! Marks live chunks in bounded steps: every unique recipe node, directory and chunk once, however
//! many objects share it (physical garbage collection, FAST'17, section 4). Garbage collection,
//! check and `stats` call this.
//!
//! ```text
//! snapshots -> directories -> queue of each level -> batch by place -> read nodes -> level below
//!                              level 0: mark chunks
//! ```
//!
//! There is one queue for each level. The lowest queue that is full is processed first, otherwise
//! the highest that is not empty. So marking proceeds level by level and the queues stay bounded.
//! The nodes of a batch are read in the order of their places.
//!
//! Invariant: when [`Marking::is_done`], everything that the pushed objects reach is marked. An
//! object that cannot be found or read ends the marking with its error, because its children are
//! unknown. Only callers that delete nothing ([`Marking::past_damage`]), or that have pushed all
//! objects that must survive ([`Marking::go_past_damage`]), continue past damage.

use super::below;
use super::live::{LiveMap, Seen};
use crate::read_path::Reader;
use chunk_store::chunk_map::{ChunkMap, FingerprintSet, Indexed, Kept};
use chunk_store::container::RegionPlace;
use chunk_store::{Result, StoreError};
use format::recipe::{LEVEL_MAX, Layout, ObjectRoot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::mem::take;
use units::{ContainerId, Fingerprint};

/// Length from which a queue counts as full and is processed before it grows.
const BATCH: usize = 16 << 10;
const LEVELS: usize = LEVEL_MAX as usize + 1;

#[derive(Clone, Copy)]
struct Waiting {
    fingerprint: Fingerprint,
    layout: Layout,
}

/// The queue of one level.
#[derive(Default)]
struct Level {
    waiting: Vec<Waiting>,
    /// The batch in processing, the first item last. Nodes in it are marked already and must be
    /// read.
    batch: Vec<Waiting>,
}

/// Counts of marking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// Recipe nodes read, each once.
    pub nodes: u64,
    /// Directories read, each once.
    pub directories: u64,
    /// References to chunks and nodes that were followed.
    pub references: u64,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Marking {
    pub live: LiveMap,
    pub counts: MarkCounts,
    levels: [Level; LEVELS],
    directories: Vec<ObjectRoot>,
    /// Uncommitted chunks, which may not be in any container yet.
    strays: Vec<Fingerprint>,
    /// Nodes and directories in containers that no commit has entered yet. They are few.
    unsettled: HashSet<(Fingerprint, bool)>,
    /// References that could not be followed; `None`: the first one ends the marking.
    damage: Option<BTreeMap<Fingerprint, Unfollowed>>,
}

/// Reason why a reference could not be followed.
#[derive(Debug)]
pub(crate) enum Unfollowed {
    /// A chunk of data that no readable container has.
    Missing,
    /// A node or directory that is missing or unreadable. Nothing below it is marked.
    Unreadable(StoreError),
}

/// Inputs of marking.
pub(crate) struct Sources<'a> {
    pub chunks: &'a ChunkMap,
    pub reader: &'a Reader,
    /// Returns true for containers that a commit has entered.
    pub settled: &'a dyn Fn(ContainerId) -> bool,
}

impl Marking {
    /// Creates a marking that continues past damage and records it.
    pub fn past_damage() -> Self {
        Self {
            damage: Some(BTreeMap::new()),
            ..Self::default()
        }
    }

    /// From now on continues past damage and records it.
    pub fn go_past_damage(&mut self) {
        self.damage.get_or_insert_default();
    }

    /// Returns the references that could not be followed, each once.
    pub fn into_damage(self) -> BTreeMap<Fingerprint, Unfollowed> {
        self.damage.unwrap_or_default()
    }

    /// Records damage, or ends the marking with it.
    fn pass(
        &mut self,
        at: Fingerprint,
        why: StoreError,
        what: fn(StoreError) -> Unfollowed,
    ) -> Result<()> {
        match &mut self.damage {
            Some(damage) if why.is_corruption() => {
                damage.entry(at).or_insert_with(|| what(why));
                Ok(())
            }
            _ => Err(why),
        }
    }

    /// Adds an object. `is_tree`: its bytes are a directory.
    pub fn push(&mut self, root: &ObjectRoot, is_tree: bool) {
        if root.len == 0 || root.fingerprint.is_hole() {
            return;
        }
        match is_tree {
            true => self.directories.push(*root),
            false => self.push_node(root.level, root.layout, root.fingerprint),
        }
    }

    /// Adds a node of the catalog without its children.
    pub fn push_catalog_node(&mut self, fingerprint: Fingerprint) {
        self.push_node(0, Layout::Variable, fingerprint);
    }

    /// Adds a chunk that a session stored or found and has not committed. If no settled container
    /// has it, there is nothing to keep.
    pub fn push_stray(&mut self, fingerprint: Fingerprint) {
        if !fingerprint.is_hole() {
            self.strays.push(fingerprint);
        }
    }

    fn push_node(&mut self, level: u8, layout: Layout, fingerprint: Fingerprint) {
        if !fingerprint.is_hole()
            && let Some(level) = self.levels.get_mut(usize::from(level))
        {
            level.waiting.push(Waiting {
                fingerprint,
                layout,
            });
        }
    }

    /// Returns true if the queues are empty.
    pub fn is_done(&self) -> bool {
        let idle = |level: &Level| level.waiting.is_empty() && level.batch.is_empty();
        let none = self.directories.is_empty() && self.strays.is_empty();
        none && self.levels.iter().all(idle)
    }

    /// Returns true if a queue is full, so that the caller should not push more.
    pub fn is_full(&self) -> bool {
        self.levels.iter().any(|level| level.waiting.len() >= BATCH)
    }

    /// Marks about `budget` references.
    pub fn step(&mut self, sources: &Sources<'_>, budget: u64) -> Result<()> {
        self.mark_strays(sources)?;
        let until = self.counts.references.saturating_add(budget);
        while self.counts.references < until && !self.is_done() {
            match self.next_level() {
                Some(0) => self.mark_chunk(sources)?,
                Some(level) => self.expand(sources, level)?,
                None => self.list(sources)?,
            }
        }
        Ok(())
    }

    /// Marks uncommitted chunks that a settled container has.
    fn mark_strays(&mut self, sources: &Sources<'_>) -> Result<()> {
        let mut unsure = FingerprintSet::default();
        for stray in take(&mut self.strays) {
            match sources.chunks.keeper_indexed(&stray, sources.settled)? {
                Indexed::Kept(kept) => {
                    self.live.mark(&kept, Seen::Chunk);
                }
                Indexed::Nowhere => {}
                Indexed::Unsure => {
                    unsure.insert(stray);
                }
            }
        }
        let mut mark = |kept: Kept| {
            self.live.mark(&kept, Seen::Chunk);
        };
        sources
            .chunks
            .search_settled(&unsure, sources.settled, &mut mark)
    }

    /// Returns the lowest level that is full or has a batch, otherwise the highest non-empty one
    /// above 0, otherwise `None` for a directory, otherwise 0.
    fn next_level(&self) -> Option<usize> {
        let is_due = |level: &Level| level.waiting.len() >= BATCH || !level.batch.is_empty();
        let due = self.levels.iter().position(is_due);
        let waits = |level: &Level| !level.waiting.is_empty();
        let highest = || {
            self.levels
                .iter()
                .rposition(waits)
                .filter(|level| *level > 0)
        };
        match due.or_else(highest) {
            None if self.directories.is_empty() => Some(0),
            next => next,
        }
    }

    /// Marks one reference. Returns its place if it was not reached in this role before.
    fn mark(
        &mut self,
        sources: &Sources<'_>,
        fingerprint: &Fingerprint,
        seen: Seen,
    ) -> Result<Option<RegionPlace>> {
        self.counts.references += 1;
        let Some(kept) = sources.chunks.keeper(fingerprint, sources.settled)? else {
            let found = "needed, and in no readable container";
            let why = StoreError::corruption("chunk", fingerprint, found);
            let what = match seen {
                Seen::Chunk => |_| Unfollowed::Missing,
                Seen::Node | Seen::Directory => Unfollowed::Unreadable,
            };
            return self.pass(*fingerprint, why, what).map(|()| None);
        };
        let new = if (sources.settled)(kept.directory.container) {
            self.live.mark(&kept, seen)
        } else {
            let is_directory = seen == Seen::Directory;
            seen == Seen::Chunk || self.unsettled.insert((*fingerprint, is_directory))
        };
        Ok(new.then_some(kept.place.region))
    }

    /// Marks one chunk of the batch.
    fn mark_chunk(&mut self, sources: &Sources<'_>) -> Result<()> {
        let Some(level) = self.levels.first_mut() else {
            return Ok(());
        };
        if level.batch.is_empty() {
            // Descending order, popped from the end: the order of the index's buckets, each chunk
            // once.
            level.batch = take(&mut level.waiting);
            level
                .batch
                .sort_unstable_by_key(|w| Reverse(w.fingerprint.0));
            level.batch.dedup_by_key(|w| w.fingerprint.0);
        }
        match level.batch.pop() {
            Some(chunk) => self
                .mark(sources, &chunk.fingerprint, Seen::Chunk)
                .map(drop),
            None => Ok(()),
        }
    }

    /// Marks the queued nodes as a new batch, or reads one node of the current batch.
    fn expand(&mut self, sources: &Sources<'_>, number: usize) -> Result<()> {
        let Some(level) = self.levels.get_mut(number) else {
            return Ok(());
        };
        if let Some(node) = level.batch.pop() {
            return self.read_node(sources, number as u8, &node);
        }
        let mut waiting = take(&mut level.waiting);
        waiting.sort_unstable_by_key(|w| w.fingerprint.0);
        waiting.dedup_by_key(|w| w.fingerprint.0);
        let mut batch = Vec::new();
        for node in waiting {
            if let Some(place) = self.mark(sources, &node.fingerprint, Seen::Node)? {
                batch.push((place, node));
            }
        }
        batch.sort_by(|(a, _), (b, _)| b.cmp(a));
        if let Some(level) = self.levels.get_mut(number) {
            level.batch = batch.into_iter().map(|(_, node)| node).collect();
        }
        Ok(())
    }

    fn read_node(&mut self, sources: &Sources<'_>, level: u8, at: &Waiting) -> Result<()> {
        let node = sources.reader.recipe_node(&at.fingerprint);
        let node = node.and_then(|node| match (node.level, node.layout) {
            expected if expected == (level, at.layout) => Ok(node),
            _ => {
                let found = format!("level {}, expected {level}", node.level);
                Err(StoreError::corruption("recipe node", at.fingerprint, found))
            }
        });
        let node = match node {
            Ok(node) => node,
            Err(e) => return self.pass(at.fingerprint, e, Unfollowed::Unreadable),
        };
        self.counts.nodes += 1;
        for child in &node.children {
            self.push_node(level - 1, at.layout, *child);
        }
        Ok(())
    }

    /// Reads one directory and adds its entries, unless it was read before.
    fn list(&mut self, sources: &Sources<'_>) -> Result<()> {
        let Some(root) = self.directories.pop() else {
            return Ok(());
        };
        let new = self.mark(sources, &root.fingerprint, Seen::Directory)?;
        if new.is_none() {
            return Ok(());
        }
        self.counts.directories += 1;
        self.push_node(root.level, root.layout, root.fingerprint);
        let entries = match sources.reader.directory(&root) {
            Ok(entries) => entries,
            Err(e) => return self.pass(root.fingerprint, e, Unfollowed::Unreadable),
        };
        for entry in entries {
            if let Some((object, is_tree)) = below(&entry) {
                self.push(&object, is_tree);
            }
        }
        Ok(())
    }
}
