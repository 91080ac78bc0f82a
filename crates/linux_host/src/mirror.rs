//! The state of the page cache as far as it is known: which pages of which files are present and
//! dirty. `watch` feeds it; Duet's sessions get its changes and its replays.
//!
//! Invariant: a change is an assignment. Pages that a change does not name keep their state, so
//! changes that repeat what is known record no event.

use crate::identity::FileId;
use crate::sys::{Bits, Key};
use duet::{Duet, Events, Page, Position, Present, Space};
use machine::ChunkState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Pages of a file that changed their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Came into memory.
    pub added: u64,
    /// Left it.
    pub removed: u64,
    /// Became newer than on the disk.
    pub dirtied: u64,
    /// Were written, or dropped unwritten.
    pub flushed: u64,
}

#[derive(Debug)]
struct File {
    id: FileId,
    chunks: BTreeMap<u64, ChunkState>,
}

/// Files with pages in memory. An object of Duet's table is the number of a file here.
pub struct Mirror {
    duet: Arc<Duet>,
    numbers: HashMap<FileId, u64>,
    files: BTreeMap<u64, File>,
    next: u64,
}

impl Mirror {
    /// Makes an empty mirror, which records its changes in a table.
    pub fn new(duet: Arc<Duet>) -> Self {
        Self {
            duet,
            numbers: HashMap::new(),
            files: BTreeMap::new(),
            next: 0,
        }
    }

    /// Returns the file that an object of Duet's table stands for.
    pub fn file(&self, object: u64) -> Option<FileId> {
        Some(self.files.get(&object)?.id)
    }

    /// Returns the object of Duet's table that stands for a file now.
    pub fn object(&self, id: FileId) -> Option<u64> {
        self.numbers.get(&id).copied()
    }

    /// Returns (present, dirty) of a page.
    pub fn page(&self, id: FileId, index: u64) -> (bool, bool) {
        let state = self.state(id, index / 64);
        let bit = 1 << (index % 64);
        (state.present & bit != 0, state.dirty & bit != 0)
    }

    /// Returns how many pages of a file are in memory.
    pub fn cached_pages(&self, id: FileId) -> u64 {
        let file = self.numbers.get(&id).and_then(|n| self.files.get(n));
        let pages = |state: &ChunkState| u64::from(state.present.count_ones());
        file.map_or(0, |file| file.chunks.values().map(pages).sum())
    }

    /// Returns how many pages of a range of pages of a file are in memory and not dirty.
    pub fn clean_pages(&self, id: FileId, pages: std::ops::Range<u64>) -> u64 {
        let file = self.numbers.get(&id).and_then(|n| self.files.get(n));
        let Some(file) = file.filter(|_| !pages.is_empty()) else {
            return 0;
        };
        let chunks = file.chunks.range(pages.start / 64..=(pages.end - 1) / 64);
        let clean = chunks.map(|(chunk, state)| {
            let first = chunk * 64;
            let from = pages.start.saturating_sub(first).min(63);
            let to = (pages.end - first).min(64);
            let within = u64::MAX << from & u64::MAX >> (64 - to);
            u64::from((state.present & !state.dirty & within).count_ones())
        });
        clean.sum()
    }

    fn state(&self, id: FileId, chunk: u64) -> ChunkState {
        let file = self.numbers.get(&id).and_then(|n| self.files.get(n));
        let state = file.and_then(|file| file.chunks.get(&chunk));
        state.copied().unwrap_or(ChunkState::EMPTY)
    }

    /// Applies what eBPF saw of a chunk.
    pub(crate) fn apply(&mut self, key: &Key, bits: &Bits) -> (FileId, Moved) {
        let id = FileId {
            device: key.device,
            root: key.root,
            inode: key.inode,
            generation: key.generation,
        };
        let before = self.state(id, key.chunk);
        let present = before.present & !bits.seen_present | bits.present & bits.seen_present;
        let dirty = before.dirty & !bits.seen_dirty | bits.dirty & bits.seen_dirty;
        let now = ChunkState {
            present,
            dirty: dirty & present,
        };
        (id, self.assign(id, key.chunk, now))
    }

    /// Sets the state of a chunk and records the difference.
    pub(crate) fn assign(&mut self, id: FileId, chunk: u64, now: ChunkState) -> Moved {
        let before = self.state(id, chunk);
        if before == now {
            return Moved::default();
        }
        let number = self.number(id);
        if let Some(file) = self.files.get_mut(&number) {
            match now == ChunkState::EMPTY {
                true => file.chunks.remove(&chunk),
                false => file.chunks.insert(chunk, now),
            };
        }
        let object = (number, id.generation);
        Moved {
            added: self.record(object, chunk, now.present & !before.present, Events::ADDED),
            dirtied: self.record(object, chunk, now.dirty & !before.dirty, Events::DIRTIED),
            flushed: self.record(object, chunk, before.dirty & !now.dirty, Events::FLUSHED),
            removed: self.record(
                object,
                chunk,
                before.present & !now.present,
                Events::REMOVED,
            ),
        }
    }

    /// Sets every chunk of a file that a scan did not find to empty.
    pub(crate) fn clear_others(&mut self, id: FileId, found: &BTreeSet<u64>) -> Moved {
        let file = self.numbers.get(&id).and_then(|n| self.files.get(n));
        let others: Vec<u64> = file.map_or_else(Vec::new, |file| {
            let chunks = file.chunks.keys().copied();
            chunks.filter(|chunk| !found.contains(chunk)).collect()
        });
        let mut all = Moved::default();
        for chunk in others {
            all.add(self.assign(id, chunk, ChunkState::EMPTY));
        }
        all
    }

    /// Returns the files that have pages in memory.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        let held = self.files.values().filter(|file| !file.chunks.is_empty());
        held.map(|file| file.id)
    }

    /// Forgets files without pages whose last events were fetched long ago.
    pub(crate) fn prune(&mut self) {
        let empty = self.files.iter().filter(|(_, file)| file.chunks.is_empty());
        let empty: Vec<(u64, FileId)> = empty.map(|(number, file)| (*number, file.id)).collect();
        for (number, id) in empty {
            self.files.remove(&number);
            self.numbers.remove(&id);
        }
    }

    fn number(&mut self, id: FileId) -> u64 {
        let (next, files) = (&mut self.next, &mut self.files);
        *self.numbers.entry(id).or_insert_with(|| {
            let number = *next;
            *next += 1;
            let chunks = BTreeMap::new();
            files.insert(number, File { id, chunks });
            number
        })
    }

    fn record(&self, object: (u64, u32), chunk: u64, pages: u64, events: Events) -> u64 {
        for_each_bit(pages, |bit| {
            self.duet.record(&page(object, chunk, bit), events);
        });
        u64::from(pages.count_ones())
    }
}

impl Moved {
    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.dirtied += other.dirtied;
        self.flushed += other.flushed;
    }
}

fn page((object, generation): (u64, u32), chunk: u64, bit: u64) -> Page {
    Page {
        space: Space::Pages,
        object,
        generation,
        index: chunk * 64 + bit,
    }
}

fn for_each_bit(mut bits: u64, mut visit: impl FnMut(u64)) {
    while bits != 0 {
        visit(u64::from(bits.trailing_zeros()));
        bits &= bits - 1;
    }
}

fn visit_chunk(
    object: (u64, u32),
    chunk: u64,
    state: ChunkState,
    visit: &mut dyn FnMut(&Page, Events),
) {
    for_each_bit(state.present, |bit| {
        let events = match state.dirty >> bit & 1 {
            0 => Events::ADDED,
            _ => Events::ADDED.and(Events::DIRTIED),
        };
        visit(&page(object, chunk, bit), events);
    });
}

/// A position is the object and chunk that was replayed last.
impl Present for Mirror {
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position> {
        if space != Space::Pages {
            return None;
        }
        let (from, after) = match position {
            Some(Position([object, chunk])) => (object, Some(chunk)),
            None => (0, None),
        };
        let mut left = max.max(64);
        for (number, file) in self.files.range(from..) {
            let start = match after.filter(|_| *number == from) {
                Some(chunk) => Bound::Excluded(chunk),
                None => Bound::Unbounded,
            };
            for (chunk, state) in file.chunks.range((start, Bound::Unbounded)) {
                visit_chunk((*number, file.id.generation), *chunk, *state, visit);
                left = left.saturating_sub(state.present.count_ones() as usize);
                if left == 0 {
                    return Some(Position([*number, *chunk]));
                }
            }
        }
        None
    }

    fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events)) {
        let file = self.files.get(&object).filter(|_| space == Space::Pages);
        for (chunk, state) in file.iter().flat_map(|file| &file.chunks) {
            let generation = file.map_or(0, |file| file.id.generation);
            visit_chunk((object, generation), *chunk, *state, visit);
        }
    }
}

#[cfg(test)]
mod tests;
