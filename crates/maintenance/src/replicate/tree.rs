//! Copies a file tree: reads directories, copies the contents below, then writes each directory
//! with the receiving pool's fingerprints. The task calls this.
//!
//! Invariant: steps are bounded. Memory has the directories on the path from the root. A directory
//! or file that equals the base is not read.

use super::CopyError;
use super::carrier::Carrier;
use super::object::ObjectCopy;
use super::pairs::Pair;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use std::collections::HashMap;
use store::Reader;

/// Maximum number of objects of this tree that are remembered, for hard links and copies: about 150
/// bytes each.
const OBJECTS_MAX: usize = 1 << 16;

/// A directory on the path to the current position.
struct Level {
    /// The directory's object.
    root: ObjectRoot,
    /// Entries to copy, in reverse order.
    left: Vec<Entry>,
    copied: Vec<Entry>,
    base: Option<Listing>,
}

/// A directory that both pools have: the same names in both.
pub(crate) struct Listing {
    here: Vec<Entry>,
    there: Vec<Entry>,
}

/// See the module's head.
pub(super) struct TreeCopy {
    levels: Vec<Level>,
    file: Option<(Entry, ObjectCopy)>,
    objects: HashMap<ObjectRoot, ObjectRoot>,
    /// The copied tree, once nothing is left.
    done: Option<ObjectRoot>,
}

impl TreeCopy {
    pub fn new(
        root: ObjectRoot,
        base: Option<Pair>,
        carrier: &mut Carrier,
    ) -> Result<Self, CopyError> {
        let mut copy = Self {
            levels: Vec::new(),
            file: None,
            objects: HashMap::new(),
            done: None,
        };
        match known(&root, base, true, carrier) {
            Some(there) => copy.done = Some(there),
            None => copy.descend(root, base, carrier)?,
        }
        Ok(copy)
    }

    fn descend(
        &mut self,
        root: ObjectRoot,
        base: Option<Pair>,
        carrier: &mut Carrier,
    ) -> Result<(), CopyError> {
        let mut left = carrier.source().directory(&root);
        if let Ok(entries) = &mut left {
            entries.reverse();
        }
        // Without a base more is read; the result is the same.
        let base = base.and_then(|pair| Listing::read(pair, carrier.source(), carrier.to.reader()));
        self.levels.push(Level {
            root,
            left: left.map_err(CopyError::Source)?,
            copied: Vec::new(),
            base,
        });
        Ok(())
    }

    /// Copies about `budget_bytes`. Returns true if nothing is left.
    pub fn step(&mut self, carrier: &mut Carrier, budget_bytes: u64) -> Result<bool, CopyError> {
        let spent = |carrier: &Carrier| carrier.counts.read_bytes + carrier.counts.cached_bytes;
        let before = spent(carrier);
        for _ in 0..ENTRIES_MAX {
            let rest = budget_bytes.saturating_sub(spent(carrier) - before);
            if self.done.is_some() || rest == 0 {
                break;
            }
            self.advance(carrier, rest)?;
        }
        Ok(self.done.is_some())
    }

    fn advance(&mut self, carrier: &mut Carrier, budget_bytes: u64) -> Result<(), CopyError> {
        if let Some((entry, mut copy)) = self.file.take() {
            if !copy.step(carrier, budget_bytes)? {
                self.file = Some((entry, copy));
                return Ok(());
            }
            let there = copy.finish(carrier)?;
            self.copied(entry, there);
            return Ok(());
        }
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        let Some(entry) = level.left.pop() else {
            return self.ascend(carrier);
        };
        let (content, is_tree) = match &entry.kind {
            EntryKind::File { content, .. } => (*content, false),
            EntryKind::Directory { content } => (*content, true),
            _ => {
                level.copied.push(entry);
                return Ok(());
            }
        };
        let base = level.base.as_ref().and_then(|base| base.pair(&entry));
        let there = known(&content, base, is_tree, carrier);
        if let Some(there) = there.or_else(|| self.objects.get(&content).copied()) {
            self.copied(entry, there);
        } else if is_tree {
            level.left.push(entry);
            self.descend(content, base, carrier)?;
        } else {
            self.file = Some((entry, ObjectCopy::new(content, base, carrier)));
        }
        Ok(())
    }

    /// Writes a directory that is completely copied, and completes its entry in the one above.
    fn ascend(&mut self, carrier: &mut Carrier) -> Result<(), CopyError> {
        let Some(level) = self.levels.pop() else {
            return Ok(());
        };
        let bytes = Entry::encode_directory(&level.copied);
        let there = carrier.to.store_directory(&bytes)?;
        self.remember(level.root, there);
        match self.levels.last_mut().and_then(|above| above.left.pop()) {
            Some(entry) => self.copied(entry, there),
            None => self.done = Some(there),
        }
        Ok(())
    }

    fn copied(&mut self, mut entry: Entry, there: ObjectRoot) {
        let here = match &mut entry.kind {
            EntryKind::File { content, .. } | EntryKind::Directory { content } => {
                std::mem::replace(content, there)
            }
            _ => there,
        };
        self.remember(here, there);
        if let Some(level) = self.levels.last_mut() {
            level.copied.push(entry);
        }
    }

    fn remember(&mut self, here: ObjectRoot, there: ObjectRoot) {
        if self.objects.len() < OBJECTS_MAX {
            self.objects.insert(here, there);
        }
    }

    /// Returns the tree in the receiving pool, once nothing is left.
    pub fn root(&self) -> Option<ObjectRoot> {
        self.done
    }
}

/// Maximum number of entries in a step.
const ENTRIES_MAX: usize = 4096;

/// Returns the object there without reading it, if it is empty or equals the base.
fn known(
    content: &ObjectRoot,
    base: Option<Pair>,
    is_tree: bool,
    carrier: &Carrier,
) -> Option<ObjectRoot> {
    if content.len == 0 {
        return Some(*content);
    }
    let there = base.filter(|pair| pair.here == *content)?.there;
    let reader = carrier.to.reader();
    let is_whole = match is_tree {
        // Damage below a directory has no known path, so any known damage disables the shortcut.
        true => !reader.knows_damage(),
        false => reader.is_believed_whole(&there),
    };
    is_whole.then_some(there)
}

impl Listing {
    /// Reads both directories; `None` if one cannot be read.
    pub fn read(pair: Pair, here: &Reader, there: &Reader) -> Option<Self> {
        let here = here.directory(&pair.here).ok()?;
        let there = there.directory(&pair.there).ok()?;
        Some(Self { here, there })
    }

    /// Returns the pair of objects with that name and type.
    pub fn pair(&self, entry: &Entry) -> Option<Pair> {
        let content = |entries: &[Entry]| {
            let at = entries.binary_search_by(|e| e.name.cmp(&entry.name)).ok()?;
            match (&entries.get(at)?.kind, &entry.kind) {
                (EntryKind::File { content, .. }, EntryKind::File { .. })
                | (EntryKind::Directory { content }, EntryKind::Directory { .. }) => Some(*content),
                _ => None,
            }
        };
        let (here, there) = (content(&self.here)?, content(&self.there)?);
        (here.len == there.len).then_some(Pair { here, there })
    }
}
