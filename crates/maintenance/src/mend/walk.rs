//! One walk over objects, with one session: every lost part is asked of the replica once.
//!
//! Invariant: below what came back in this round nothing is looked at, as it can be read only after the
//! commit: then there is another round. What is whole is not walked again. In memory are the directories
//! from the root to where it is. Called by the repair.

use super::mending::{DirectoryMending, ObjectMending};
use super::place::Place;
use super::round::Round;
use crate::replicate::Pair;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use store::Result;

/// Trees that are remembered as whole, at most: about 60 bytes each. Others are walked again.
const WHOLE_TREES_MAX: usize = 1 << 20;

/// A directory on the way to where the walk is.
struct Level {
    root: ObjectRoot,
    left: Vec<Entry>,
    is_whole: bool,
}

impl Round<'_> {
    /// An object that is no directory.
    pub fn object(&mut self, root: &ObjectRoot, theirs: Option<ObjectRoot>) -> Result<()> {
        self.data(root, &mut Place::top(theirs, None)).map(drop)
    }

    /// True when it is whole.
    fn data(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<bool> {
        self.check()?;
        let mut whole = std::mem::take(&mut self.whole);
        let reader = self.pool.reader();
        let mended =
            reader.mend_object(root, &mut whole, &mut ObjectMending { round: self, place });
        self.whole = whole;
        self.unless_unreadable(mended)
    }

    /// A directory with all that is below it.
    pub fn tree(
        &mut self,
        root: &ObjectRoot,
        theirs: Option<ObjectRoot>,
        neighbour: Option<Pair>,
    ) -> Result<()> {
        let mut place = Place::top(theirs, neighbour);
        let mut levels = Vec::new();
        levels.extend(self.descend(root, &mut place)?);
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.left.pop() else {
                self.ascend(&mut levels);
                place.leave();
                continue;
            };
            match entry.kind {
                EntryKind::File { content, .. } => {
                    place.enter(entry);
                    level.is_whole &= self.data(&content, &mut place)?;
                    place.leave();
                }
                EntryKind::Directory { content } if !self.whole_trees.contains(&content) => {
                    place.enter(entry);
                    match self.descend(&content, &mut place)? {
                        Some(below) => levels.push(below),
                        None => {
                            level.is_whole = false;
                            place.leave();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `None` when the directory cannot be read, or not yet.
    fn descend(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<Option<Level>> {
        if self.whole_trees.contains(root) || !self.directory(root, place)? {
            return Ok(None);
        }
        let mut left = match self.pool.reader().directory(root) {
            // What reading it found damaged is lost from now on.
            Err(e) if e.is_corruption() => {
                let _ = self.directory(root, place)?;
                return Ok(None);
            }
            entries => entries?,
        };
        left.reverse();
        Ok(Some(Level {
            root: *root,
            left,
            is_whole: true,
        }))
    }

    /// The object that a directory is; true when it can be read.
    fn directory(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<bool> {
        self.check()?;
        let mut whole = std::mem::take(&mut self.whole);
        let (pool, mut came_back) = (self.pool, None);
        let mut mending = DirectoryMending {
            root,
            round: self,
            place,
            came_back: &mut came_back,
        };
        let mended = pool.reader().mend_object(root, &mut whole, &mut mending);
        self.whole = whole;
        let is_whole = self.unless_unreadable(mended)?;
        Ok(is_whole && came_back.is_none())
    }

    fn ascend(&mut self, levels: &mut Vec<Level>) {
        let Some(level) = levels.pop() else {
            return;
        };
        if !level.is_whole {
            if let Some(above) = levels.last_mut() {
                above.is_whole = false;
            }
        } else if self.whole_trees.len() < WHOLE_TREES_MAX {
            self.whole_trees.insert(level.root);
        }
    }

    /// What is not what it should be although it can be read is nothing that a replica repairs.
    fn unless_unreadable(&mut self, mended: Result<bool>) -> Result<bool> {
        match mended {
            Err(e) if e.is_corruption() => {
                self.counts.missing += 1;
                Ok(false)
            }
            mended => mended,
        }
    }
}
