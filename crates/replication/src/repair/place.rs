//! The position of a walk in a tree, and the replica's object there. Rounds use it.
//!
//! Invariant: the replica's directories are read only if something on the path to this position is
//! lost, and each once while the walk is below it.

use crate::copy::{Listing, Pair};
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use store::{Reader, Result};

/// A directory on the path, or the object at its end.
#[derive(Default)]
struct Step {
    /// Its entry in the directory above.
    entry: Option<Entry>,
    /// The replica's object; `None` before it was looked up.
    theirs: Option<Option<ObjectRoot>>,
    /// Entries of the replica's directory, once it was read.
    listing: Option<Vec<Entry>>,
}

/// See the module's head.
pub(super) struct Place {
    steps: Vec<Step>,
    /// The same source at another time, in both pools.
    neighbour: Option<Pair>,
}

impl Place {
    pub fn top(theirs: Option<ObjectRoot>, neighbour: Option<Pair>) -> Self {
        let top = Step {
            theirs: Some(theirs),
            ..Step::default()
        };
        Self {
            steps: vec![top],
            neighbour,
        }
    }

    pub fn enter(&mut self, entry: Entry) {
        self.steps.push(Step {
            entry: Some(entry),
            ..Step::default()
        });
    }

    pub fn leave(&mut self) {
        self.steps.pop();
    }

    /// Returns the replica's object at this position, if any. Fails if the replica cannot be read.
    pub fn theirs(&mut self, replica: &Reader) -> Result<Option<ObjectRoot>> {
        let mut above: Option<&mut Step> = None;
        for step in &mut self.steps {
            if let (None, Some(above)) = (step.theirs, above) {
                step.theirs = Some(above.find(step.entry.as_ref(), replica)?);
            }
            above = Some(step);
        }
        Ok(above.and_then(|step| step.theirs.flatten()))
    }

    /// Returns the same position at the other time, if both pools can read all directories on the
    /// path.
    pub fn neighbour(&self, pool: &Reader, replica: &Reader) -> Option<Pair> {
        let mut at = self.neighbour?;
        for entry in self.steps.iter().filter_map(|step| step.entry.as_ref()) {
            at = Listing::read(at, pool, replica)?.pair(entry)?;
        }
        Some(at)
    }
}

impl Step {
    fn find(&mut self, entry: Option<&Entry>, replica: &Reader) -> Result<Option<ObjectRoot>> {
        let (Some(Some(root)), Some(entry)) = (self.theirs, entry) else {
            return Ok(None);
        };
        let listing = match self.listing.take() {
            Some(listing) => listing,
            None => replica.directory(&root)?,
        };
        let listing = self.listing.insert(listing);
        let at = listing.binary_search_by(|e| e.name.cmp(&entry.name));
        let found = at.ok().and_then(|at| listing.get(at));
        Ok(match (&entry.kind, found.map(|found| &found.kind)) {
            (EntryKind::File { .. }, Some(EntryKind::File { content, .. }))
            | (EntryKind::Directory { .. }, Some(EntryKind::Directory { content })) => {
                Some(*content)
            }
            _ => None,
        })
    }
}
