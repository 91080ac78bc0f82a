//! Puts copied chunks together in the receiving pool: recipes and directories, from the leaves up.
//! The ordered copy gives it pieces in their own order.
//!
//! Invariant: the receiving pool gets the objects that a backup of the same chunks would give it,
//! whatever the order in which the chunks came. Memory has the directories on the path from the
//! root.

use super::CopyError;
use super::piece::{Chunk, MARKS_MAX, Mark, Piece};
use super::receiver::Receiver;
use format::recipe::{Layout, ObjectRoot};
use format::tree::{Entry, EntryKind};
use std::collections::{HashMap, HashSet, VecDeque};
use store::{ObjectBuilder, StoreError, StoreErrorKind};

/// Maximum number of objects of a tree that are remembered, the newest, for hard links and copies:
/// about 200 bytes each.
const OBJECTS_MAX: usize = 1 << 16;
/// Maximum number of pieces that may be known ahead. An object is remembered at least until the
/// entries that are known ahead and name it again are put in their place.
pub(super) const PIECES_AHEAD_MAX: usize = OBJECTS_MAX / 4 / MARKS_MAX;

/// Objects of a tree, so that each is copied once.
#[derive(Default)]
pub(super) struct Seen {
    copies: HashMap<ObjectRoot, ObjectRoot>,
    /// Objects of `copies`, the oldest first.
    order: VecDeque<ObjectRoot>,
    under_way: HashSet<ObjectRoot>,
}

impl Seen {
    /// Returns the object's copy in the receiving pool.
    pub fn copy_of(&self, here: &ObjectRoot) -> Option<ObjectRoot> {
        self.copies.get(here).copied()
    }

    /// Returns true if the object is known ahead and not complete.
    pub fn is_under_way(&self, here: &ObjectRoot) -> bool {
        self.under_way.contains(here)
    }

    pub fn begun(&mut self, here: ObjectRoot) {
        self.under_way.insert(here);
    }

    pub fn copied(&mut self, here: ObjectRoot, there: ObjectRoot) {
        self.under_way.remove(&here);
        if self.copies.insert(here, there).is_none() {
            self.order.push_back(here);
        }
        if self.order.len() > OBJECTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.copies.remove(&oldest);
        }
    }
}

/// A directory that is not complete.
struct Level {
    here: ObjectRoot,
    /// Its entry in the directory above.
    entry: Option<Box<Entry>>,
    copied: Vec<Entry>,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Assembly {
    pub seen: Seen,
    levels: Vec<Level>,
    builder: Option<ObjectBuilder>,
    done: Option<ObjectRoot>,
}

impl Assembly {
    /// The object is there.
    pub fn of(there: ObjectRoot) -> Self {
        Self {
            done: Some(there),
            ..Self::default()
        }
    }

    /// Takes the next piece, whose chunks are all sent.
    pub fn take(&mut self, piece: Piece, to: &mut Receiver) -> Result<(), CopyError> {
        let mut marks = piece.marks.into_iter().peekable();
        for (number, chunk) in piece.chunks.into_iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|(before, _)| *before <= number) {
                self.mark(mark, to)?;
            }
            self.push(&chunk, to)?;
        }
        marks.try_for_each(|(_, mark)| self.mark(mark, to))
    }

    fn push(&mut self, chunk: &Chunk, to: &mut Receiver) -> Result<(), CopyError> {
        let new = || ObjectBuilder::new(chunk.layout);
        let builder = self.builder.get_or_insert_with(new);
        // Holes come in their full length; in fixed layout the builder takes them chunk by chunk.
        let chunk_bytes = match chunk.layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => chunk.len,
        };
        let mut left = chunk.len;
        while left > 0 {
            let one = left.min(chunk_bytes);
            let pushed = builder.push(chunk.name, one, &mut |node| to.store_node(node));
            pushed.map_err(CopyError::Receiver)?;
            left -= one;
        }
        Ok(())
    }

    fn mark(&mut self, mark: Mark, to: &mut Receiver) -> Result<(), CopyError> {
        match mark {
            Mark::Enter(here, entry) => self.levels.push(Level {
                here,
                entry,
                copied: Vec::new(),
            }),
            Mark::Leave => {
                let Some(level) = self.levels.pop() else {
                    return Ok(());
                };
                let there = to.store_directory(&Entry::encode_directory(&level.copied))?;
                self.seen.copied(level.here, there);
                match level.entry {
                    Some(entry) => self.add(*entry, Some(there)),
                    None => self.done = Some(there),
                }
            }
            Mark::Entry(entry) => self.add(*entry, None),
            Mark::Again(entry) => {
                let there = content_of(&entry).and_then(|here| self.seen.copy_of(&here));
                let there = there.ok_or_else(forgotten)?;
                self.add(*entry, Some(there));
            }
            Mark::File(entry) => {
                let Some(here) = content_of(&entry) else {
                    return Ok(());
                };
                let there = self.finish_object(here.layout, to)?;
                self.seen.copied(here, there);
                self.add(*entry, Some(there));
            }
            Mark::Stream(layout) => self.done = Some(self.finish_object(layout, to)?),
        }
        Ok(())
    }

    /// Adds an entry to the directory, with its content there.
    fn add(&mut self, mut entry: Entry, there: Option<ObjectRoot>) {
        if let (Some(there), EntryKind::File { content, .. } | EntryKind::Directory { content }) =
            (there, &mut entry.kind)
        {
            *content = there;
        }
        if let Some(level) = self.levels.last_mut() {
            level.copied.push(entry);
        }
    }

    fn finish_object(
        &mut self,
        layout: Layout,
        to: &mut Receiver,
    ) -> Result<ObjectRoot, CopyError> {
        let builder = self.builder.take();
        let builder = builder.unwrap_or_else(|| ObjectBuilder::new(layout));
        let finished = builder.finish(&mut |node| to.store_node(node));
        finished.map_err(CopyError::Receiver)
    }

    /// Returns the object in the receiving pool, once it has all pieces.
    pub fn done(&self) -> Option<ObjectRoot> {
        self.done
    }
}

fn content_of(entry: &Entry) -> Option<ObjectRoot> {
    match &entry.kind {
        EntryKind::File { content, .. } | EntryKind::Directory { content } => Some(*content),
        _ => None,
    }
}

fn forgotten() -> CopyError {
    let why = "the first copy of a file was forgotten";
    CopyError::Receiver(StoreError::new(StoreErrorKind::Invalid, why))
}
