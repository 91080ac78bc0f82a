//! Marking what is live, in bounded steps: every unique recipe node, directory and chunk once, however
//! many objects share it (physical garbage collection, FAST'17, section 4).
//!
//! Nodes wait in one queue for each level. The lowest queue that is full is worked on first, else the
//! highest that is not empty: level by level, and what waits stays bounded. The nodes of a batch are
//! read in the order in which they are stored.
//!
//! Invariant: when [`Marking::is_done`], everything that the pushed objects reach is marked; what
//! cannot be found or read ends the marking with its error, because what lies below is not known. Only
//! callers that delete nothing ([`Marking::past_damage`]), or to whom the objects pushed from then on are no
//! promise below damage ([`Marking::go_past_damage`]), go on past it. Called by the collector, check and `stats`.

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

/// Items of a queue that is worked on before it grows.
const BATCH: usize = 16 << 10;
const LEVELS: usize = LEVEL_MAX as usize + 1;

#[derive(Clone, Copy)]
struct Waiting {
    fingerprint: Fingerprint,
    layout: Layout,
}

/// Nodes of one level.
#[derive(Default)]
struct Level {
    waiting: Vec<Waiting>,
    /// Those whose turn it is, the first last. Places of nodes were looked up: they are to be read.
    batch: Vec<Waiting>,
}

/// What marking did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// Recipe nodes that were read, each once.
    pub nodes: u64,
    /// Directories that were read, each once.
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
    /// Chunks that may still be in nobody's container.
    strays: Vec<Fingerprint>,
    /// Nodes and directories in containers that no commit has entered yet: few.
    unsettled: HashSet<(Fingerprint, bool)>,
    /// What could not be followed, where that does not end the marking.
    damage: Option<BTreeMap<Fingerprint, Unfollowed>>,
}

/// Why a reference leads nowhere.
#[derive(Debug)]
pub(crate) enum Unfollowed {
    /// Data that is in no container that can be read.
    Missing,
    /// A node or a directory that is not there or cannot be read: what is below it is not marked.
    Unreadable(StoreError),
}

/// What marking looks into.
pub(crate) struct Sources<'a> {
    pub chunks: &'a ChunkMap,
    pub reader: &'a Reader,
    /// True for containers that a commit has entered.
    pub settled: &'a dyn Fn(ContainerId) -> bool,
}

impl Marking {
    /// One that goes on past what cannot be followed, and remembers that.
    pub fn past_damage() -> Self {
        Self {
            damage: Some(BTreeMap::new()),
            ..Self::default()
        }
    }

    /// From now on goes on past what cannot be followed.
    pub fn go_past_damage(&mut self) {
        self.damage.get_or_insert_default();
    }

    /// What could not be followed, each once.
    pub fn into_damage(self) -> BTreeMap<Fingerprint, Unfollowed> {
        self.damage.unwrap_or_default()
    }

    /// Remembers damage, or ends the marking with it.
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

    /// Adds an object; `is_tree` says that its bytes are a directory.
    pub fn push(&mut self, root: &ObjectRoot, is_tree: bool) {
        if root.len == 0 || root.fingerprint.is_hole() {
            return;
        }
        match is_tree {
            true => self.directories.push(*root),
            false => self.push_node(root.level, root.layout, root.fingerprint),
        }
    }

    /// Adds a node of the catalog, without what is below.
    pub fn push_catalog_node(&mut self, fingerprint: Fingerprint) {
        self.push_node(0, Layout::Variable, fingerprint);
    }

    /// Adds a chunk that somebody stored or found and has not committed: where it is in no
    /// container yet, there is nothing to keep.
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

    /// True when nothing waits.
    pub fn is_done(&self) -> bool {
        let idle = |level: &Level| level.waiting.is_empty() && level.batch.is_empty();
        let none = self.directories.is_empty() && self.strays.is_empty();
        none && self.levels.iter().all(idle)
    }

    /// True when so much waits that no more should be pushed.
    pub fn is_full(&self) -> bool {
        self.levels.iter().any(|level| level.waiting.len() >= BATCH)
    }

    /// Marks about so many references.
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

    /// Marks what nobody has committed, where a settled container has it.
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

    /// The lowest level that is full or begun, else the highest with anything above the chunks, else
    /// a directory (`None`), else chunks.
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

    /// Marks one reference. Its place when it was not seen as this before.
    fn mark(
        &mut self,
        sources: &Sources<'_>,
        fingerprint: &Fingerprint,
        seen: Seen,
    ) -> Result<Option<RegionPlace>> {
        self.counts.references += 1;
        let Some(kept) = sources.chunks.keeper(fingerprint, sources.settled)? else {
            let found = "needed, and in no container that can be read";
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

    /// Marks one of the chunks whose turn it is.
    fn mark_chunk(&mut self, sources: &Sources<'_>) -> Result<()> {
        let Some(level) = self.levels.first_mut() else {
            return Ok(());
        };
        if level.batch.is_empty() {
            // In the order of the index's buckets, from the end on, and each once.
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

    /// Marks the nodes that wait, or reads one of those whose turn it is.
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

    /// Reads one directory and adds what is in it, unless that was done.
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
