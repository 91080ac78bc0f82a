//! Applies changes to an object in fixed layout: new chunks and a new length in, a new root out.
//! Checkpoints of `volumes` call this.
//!
//! Invariant: only nodes above a change are stored again, each once. Nodes that a run of holes
//! covers completely are not read. Memory is one path. The result is the root that building the
//! whole object anew would give.

use super::builder::StoreNode;
use super::walk::LoadNode;
use crate::error::{Result, StoreError, StoreErrorKind};
use format::recipe::{FIXED_FANOUT, LEVEL_MAX, Layout, ObjectRoot, RecipeNode};
use units::Fingerprint;
use units::Part;

/// Sets chunks `[first, first + count)` of an object to `fingerprint`: one chunk, or any number of
/// holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// Number of the first chunk.
    pub first: u64,
    /// Number of chunks.
    pub count: u64,
    /// Their new fingerprint.
    pub fingerprint: Fingerprint,
}

impl ChunkRun {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// Returns the level of the root of `chunks` chunks: 0 for one chunk.
pub(crate) fn level_of(chunks: u64) -> u8 {
    let mut level = 0;
    let mut covered = 1u64;
    while covered < chunks {
        covered = covered.saturating_mul(FIXED_FANOUT as u64);
        level += 1;
    }
    level
}

/// Returns an object of `len` zero bytes in chunks of 2^`log2` bytes.
pub fn hole(len: u64, log2: u8) -> ObjectRoot {
    ObjectRoot {
        fingerprint: Fingerprint::HOLE,
        len,
        level: level_of(len.div_ceil(1 << log2)),
        layout: Layout::Fixed(log2),
    }
}

/// Called with each chunk and node that the new root no longer has at its old place. Those behind
/// the new end, and those below a node that is not read, are left out.
pub type Replaced<'a> = dyn FnMut(&Fingerprint) + 'a;

/// Applies `edits` (ascending, not overlapping) to an object and sets its length to `len`, bytes.
/// Added space is a hole. Bytes of the last chunk beyond `len` must be zero: the caller cuts the
/// chunk. Fails with `Invalid` unless the layout is fixed.
pub fn apply(
    root: &ObjectRoot,
    len: u64,
    edits: &[ChunkRun],
    load: &mut LoadNode<'_>,
    store: &mut StoreNode<'_>,
) -> Result<ObjectRoot> {
    replace(root, len, edits, load, store, &mut |_| {})
}

/// Does the same, and reports what was replaced.
pub fn replace(
    root: &ObjectRoot,
    len: u64,
    edits: &[ChunkRun],
    load: &mut LoadNode<'_>,
    store: &mut StoreNode<'_>,
    replaced: &mut Replaced<'_>,
) -> Result<ObjectRoot> {
    debug_assert!(edits.is_sorted_by(|a, b| a.end() <= b.first));
    let Layout::Fixed(log2) = root.layout else {
        let why = "only objects with chunks of a fixed size can be changed in place";
        return Err(StoreError::new(StoreErrorKind::Invalid, why));
    };
    let chunks = |len: u64| len.div_ceil(1 << log2);
    let (had, wanted) = (chunks(root.len), chunks(len));
    let top = level_of(wanted);
    if top > LEVEL_MAX || root.level > LEVEL_MAX {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the object is too large",
        ));
    }
    let mut applying = Applying {
        layout: root.layout,
        load,
        store,
        replaced,
    };
    let mut fingerprint = root.fingerprint;
    let mut level = root.level;
    while level > top {
        let node = applying.children(fingerprint, level, FIXED_FANOUT as u64)?;
        fingerprint = *node.first().ok_or_else(|| {
            StoreError::corruption("recipe node", fingerprint, "it has no children")
        })?;
        level -= 1;
    }
    let whole = Subtree {
        fingerprint,
        stored_level: level,
        level: top,
        first: 0,
        had: had.min(span_of(level)),
        wanted,
    };
    let within = edits.partition_point(|e| e.first < wanted);
    let fingerprint = applying.change(whole, edits.part(..within)?)?;
    Ok(ObjectRoot {
        fingerprint: if len == 0 {
            Fingerprint::HOLE
        } else {
            fingerprint
        },
        len,
        level: top,
        layout: root.layout,
    })
}

/// Returns how many chunks a full node of a level covers.
fn span_of(level: u8) -> u64 {
    (FIXED_FANOUT as u64).saturating_pow(level.into())
}

/// A chunk or node with everything below it, in chunks.
#[derive(Clone, Copy)]
struct Subtree {
    fingerprint: Fingerprint,
    level: u8,
    /// Lower than `level` if the tree grew: the stored node is then the leftmost descendant.
    stored_level: u8,
    /// Number of its first chunk in the object.
    first: u64,
    /// Number of chunks before and after the change.
    had: u64,
    wanted: u64,
}

struct Applying<'a, 'l, 's, 'r> {
    layout: Layout,
    load: &'a mut LoadNode<'l>,
    store: &'a mut StoreNode<'s>,
    replaced: &'a mut Replaced<'r>,
}

impl Applying<'_, '_, '_, '_> {
    /// Returns the fingerprint of the subtree after the change.
    fn change(&mut self, at: Subtree, edits: &[ChunkRun]) -> Result<Fingerprint> {
        let changed = self.changed(at, edits)?;
        if changed != at.fingerprint && !at.fingerprint.is_hole() && at.stored_level == at.level {
            (self.replaced)(&at.fingerprint);
        }
        Ok(changed)
    }

    fn changed(&mut self, at: Subtree, edits: &[ChunkRun]) -> Result<Fingerprint> {
        if at.wanted == 0 {
            return Ok(Fingerprint::HOLE);
        }
        let end = at.first.saturating_add(at.wanted);
        if let [only] = edits
            && only.fingerprint.is_hole()
            && only.first <= at.first
            && only.end() >= end
        {
            return Ok(Fingerprint::HOLE);
        }
        if at.level == 0 {
            let last = edits.last().map(|e| e.fingerprint);
            return Ok(last.unwrap_or(at.fingerprint));
        }
        let is_stored = at.stored_level == at.level;
        let same_shape = is_stored && at.had == at.wanted;
        if edits.is_empty() && (same_shape || at.fingerprint.is_hole()) {
            return Ok(at.fingerprint);
        }
        let child_span = span_of(at.level - 1);
        let mut children = if is_stored {
            let had = at.had.div_ceil(child_span);
            self.children(at.fingerprint, at.level, had)?
        } else {
            vec![at.fingerprint]
        };
        let wanted = at.wanted.div_ceil(child_span);
        children.resize(usize::try_from(wanted).unwrap_or(0), Fingerprint::HOLE);
        let mut rest = edits;
        for (number, child) in (0u64..).zip(&mut children) {
            let offset = number * child_span;
            let first = at.first + offset;
            let end = first.saturating_add(child_span);
            let mine = rest.partition_point(|e| e.first < end);
            let (now, _) = rest.split_at(mine);
            // A run of holes may extend into the next child.
            let over = now.last().is_some_and(|e| e.end() > end);
            rest = rest.part(mine - usize::from(over)..)?;
            let level = at.level - 1;
            let below = Subtree {
                fingerprint: *child,
                level,
                stored_level: if number == 0 {
                    at.stored_level.min(level)
                } else {
                    level
                },
                first,
                had: at.had.saturating_sub(offset).min(child_span),
                wanted: at.wanted.saturating_sub(offset).min(child_span),
            };
            *child = self.change(below, now)?;
        }
        if children.iter().all(Fingerprint::is_hole) {
            return Ok(Fingerprint::HOLE);
        }
        let node = RecipeNode {
            level: at.level,
            layout: self.layout,
            children,
            lengths: Vec::new(),
        };
        (self.store)(&node.encode())
    }

    /// Returns the children of a node and checks their number.
    fn children(
        &mut self,
        fingerprint: Fingerprint,
        level: u8,
        count: u64,
    ) -> Result<Vec<Fingerprint>> {
        if fingerprint.is_hole() {
            return Ok(vec![Fingerprint::HOLE; usize::try_from(count).unwrap_or(0)]);
        }
        let node = (self.load)(&fingerprint)?;
        let found = node.children.len() as u64;
        let many = found == count || (found < count && count == FIXED_FANOUT as u64);
        if node.level != level || node.layout != self.layout || !many {
            let why = format!(
                "level {}, {found} children, expected {level}, {count}",
                node.level
            );
            return Err(StoreError::corruption("recipe node", fingerprint, why));
        }
        Ok(node.children)
    }
}

#[cfg(test)]
mod tests;
