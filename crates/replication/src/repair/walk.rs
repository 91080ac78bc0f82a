//! One walk over objects, with one session: asks the replica once for every lost part. The repair
//! calls this.
//!
//! Invariant: contents of parts repaired in this round are not examined, because they can be read
//! only after the commit: that takes another round. Undamaged trees are not walked again. Memory
//! has the directories on the path from the root.

use super::place::Place;
use super::repairing::{DirectoryRepair, ObjectRepair};
use super::round::Round;
use crate::copy::Pair;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use store::Result;

/// Maximum number of trees that are remembered as undamaged: about 60 bytes each. Others are walked
/// again.
const WHOLE_TREES_MAX: usize = 1 << 20;

/// A directory on the path to the walk's position.
struct Level {
    root: ObjectRoot,
    left: Vec<Entry>,
    is_whole: bool,
}

impl Round<'_> {
    /// Walks an object that is no directory.
    pub fn object(&mut self, root: &ObjectRoot, theirs: Option<ObjectRoot>) -> Result<()> {
        self.data(root, &mut Place::top(theirs, None)).map(drop)
    }

    /// Returns true if the object is undamaged.
    fn data(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<bool> {
        self.check()?;
        let mut whole = std::mem::take(&mut self.whole);
        let reader = self.pool.reader();
        let mut repairing = ObjectRepair {
            layout: root.layout,
            round: self,
            place,
        };
        let repaired = reader.repair_object(root, &mut whole, &mut repairing);
        self.whole = whole;
        self.unless_unreadable(repaired)
    }

    /// Walks a directory and everything below it.
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

    /// Returns `None` if the directory cannot be read, or not before the commit.
    fn descend(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<Option<Level>> {
        if self.whole_trees.contains(root) || !self.directory(root, place)? {
            return Ok(None);
        }
        let mut left = match self.pool.reader().directory(root) {
            // Reading it has found damage, which counts as lost from now on.
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

    /// Walks the object of a directory. Returns true if it can be read.
    fn directory(&mut self, root: &ObjectRoot, place: &mut Place) -> Result<bool> {
        self.check()?;
        let mut whole = std::mem::take(&mut self.whole);
        let (pool, mut came_back) = (self.pool, None);
        let mut repairing = DirectoryRepair {
            root,
            round: self,
            place,
            came_back: &mut came_back,
        };
        let repaired = pool
            .reader()
            .repair_object(root, &mut whole, &mut repairing);
        self.whole = whole;
        let is_whole = self.unless_unreadable(repaired)?;
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

    /// An object that can be read but is wrong is nothing that a replica repairs.
    fn unless_unreadable(&mut self, repaired: Result<bool>) -> Result<bool> {
        match repaired {
            Err(e) if e.is_corruption() => {
                self.counts.missing += 1;
                Ok(false)
            }
            repaired => repaired,
        }
    }
}
