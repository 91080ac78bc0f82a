//! Directories that both pools have, from a base that both have: files and directories that equal
//! it are not read. The copies of trees use it; repairs find replicas of directories with it.
//!
//! Invariant: a listing that cannot be read costs reads, and changes no result.

use super::carrier::Carrier;
use super::pairs::Pair;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use store::Reader;

/// A directory that both pools have: the same names in both.
pub(crate) struct Listing {
    here: Vec<Entry>,
    there: Vec<Entry>,
}

/// Returns the object there without reading it, if it is empty or equals the base.
pub(super) fn known(
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
