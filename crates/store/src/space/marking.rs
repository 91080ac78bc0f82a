//! Marks live chunks in bounded steps: every unique recipe node, directory and chunk once, however
//! many objects share it (physical garbage collection, FAST'17, section 4). Garbage collection,
//! check and `stats` call this.
//!
//! ```text
//! snapshots -> directories -> queue of each level
//!   -> batch, by fingerprint: look up containers in the index
//!   -> by container: mark, each container's directory is read once a batch
//!   -> level 0: done; above: read the nodes, by place -> level below
//! ```
//!
//! There is one queue for each level. The lowest queue that is full is processed first, otherwise
//! the highest that is not empty. So marking proceeds level by level and the queues stay bounded.
//!
//! Invariant: when [`Marking::is_done`], everything that the pushed objects reach is marked. An
//! object that cannot be found or read ends the marking with its error, because its children are
//! unknown. Only callers that delete nothing ([`Marking::past_damage`]), or that have pushed all
//! objects that must survive ([`Marking::go_past_damage`]), continue past damage.

use super::below;
use super::live::{LiveMap, Seen};
use chunk_store::chunk_map::{ChunkMap, FingerprintSet, Indexed, KeptCopy};
use chunk_store::container::RegionPlace;
use chunk_store::{Result, StoreError};
use format::recipe::{LEVEL_MAX, Layout, ObjectRoot};
use read_path::Reader;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::mem::take;
use units::{ContainerId, Fingerprint};

/// Length from which a queue of nodes counts as full and is processed before it grows.
const BATCH: usize = 16 << 10;
/// The same for chunks. The longer it is, the fewer directories are read: at most one for each
/// container and batch. 56 bytes each.
const CHUNKS_BATCH: usize = 64 << 10;
const LEVELS: usize = LEVEL_MAX as usize + 1;

#[derive(Clone, Copy)]
struct Waiting {
    fingerprint: Fingerprint,
    layout: Layout,
}

/// The queue of one level, and its batch in processing. The first item of each list is last.
#[derive(Default)]
struct Level {
    waiting: Vec<Waiting>,
    /// To look up in the index, in the order of its buckets.
    unplaced: Vec<Waiting>,
    /// To mark, in the order of the containers.
    placed: Vec<(Option<ContainerId>, Waiting)>,
    /// Nodes that are marked and must be read, in the order of their places.
    marked: Vec<(RegionPlace, Waiting)>,
}

impl Level {
    fn is_in_batch(&self) -> bool {
        !(self.unplaced.is_empty() && self.placed.is_empty() && self.marked.is_empty())
    }

    fn is_full(&self, number: usize) -> bool {
        let full = if number == 0 { CHUNKS_BATCH } else { BATCH };
        self.waiting.len() >= full
    }

    /// Takes what waits as the next batch, each item once.
    fn begin_batch(&mut self) {
        self.unplaced = take(&mut self.waiting);
        self.unplaced
            .sort_unstable_by_key(|w| Reverse(w.fingerprint.0));
        self.unplaced.dedup_by_key(|w| w.fingerprint.0);
    }
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
        let idle = |level: &Level| level.waiting.is_empty() && !level.is_in_batch();
        let none = self.directories.is_empty() && self.strays.is_empty();
        none && self.levels.iter().all(idle)
    }

    /// Returns true if a queue is full, so that the caller should not push more.
    pub fn is_full(&self) -> bool {
        let mut levels = self.levels.iter().enumerate();
        levels.any(|(number, level)| level.is_full(number))
    }

    /// Looks up, marks or reads about `budget` references. A reference takes two or three of these.
    pub fn step(&mut self, sources: &Sources<'_>, budget: u64) -> Result<()> {
        self.mark_strays(sources)?;
        for _ in 0..budget {
            if self.is_done() {
                break;
            }
            match self.next_level() {
                Some(level) => self.process(sources, level)?,
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
        let mut mark = |kept: KeptCopy| {
            self.live.mark(&kept, Seen::Chunk);
        };
        sources
            .chunks
            .search_settled(&unsure, sources.settled, &mut mark)
    }

    /// Returns the lowest level that is full or has a batch, otherwise the highest non-empty one
    /// above 0, otherwise `None` for a directory, otherwise 0.
    fn next_level(&self) -> Option<usize> {
        let mut levels = self.levels.iter().enumerate();
        let due = levels.position(|(number, level)| level.is_full(number) || level.is_in_batch());
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
        expected: Option<ContainerId>,
        seen: Seen,
    ) -> Result<Option<RegionPlace>> {
        self.counts.references += 1;
        let Sources {
            chunks, settled, ..
        } = sources;
        let Some(kept) = chunks.keeper_expected(fingerprint, expected, settled)? else {
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

    /// Looks up, marks or reads one item of a level's batch, or begins the next batch.
    fn process(&mut self, sources: &Sources<'_>, number: usize) -> Result<()> {
        let Some(level) = self.levels.get_mut(number) else {
            return Ok(());
        };
        if let Some(item) = level.unplaced.pop() {
            let expected = sources
                .chunks
                .expected_keeper(&item.fingerprint, sources.settled)?;
            level.placed.push((expected, item));
            if level.unplaced.is_empty() {
                level
                    .placed
                    .sort_unstable_by_key(|(at, item)| Reverse((*at, item.fingerprint.0)));
            }
        } else if let Some((expected, item)) = level.placed.pop() {
            let seen = if number == 0 { Seen::Chunk } else { Seen::Node };
            let new = self.mark(sources, &item.fingerprint, expected, seen)?;
            if let Some(level) = self.levels.get_mut(number).filter(|_| number > 0) {
                level.marked.extend(new.map(|place| (place, item)));
                if level.placed.is_empty() {
                    level.marked.sort_by(|(a, _), (b, _)| b.cmp(a));
                }
            }
        } else if let Some((_, node)) = level.marked.pop() {
            self.read_node(sources, number as u8, &node)?;
        } else {
            level.begin_batch();
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
        let new = self.mark(sources, &root.fingerprint, None, Seen::Directory)?;
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
