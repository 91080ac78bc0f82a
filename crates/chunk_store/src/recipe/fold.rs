//! Changes to an object in fixed layout: new chunks and another length in, a new root out.
//!
//! Invariant: only the nodes on the way to a change are stored again, each once; what a run of
//! holes covers whole is not read; memory is one path. The result is the root that building the
//! whole object anew would give. Called by volumes when they fold.

use super::builder::StoreNode;
use super::walk::LoadNode;
use crate::error::{Result, StoreError, StoreErrorKind};
use format::recipe::{FIXED_FANOUT, LEVEL_MAX, Layout, ObjectRoot, RecipeNode};
use units::Fingerprint;

/// Chunks `[first, first + count)` of an object become `fingerprint`: one chunk, or any number of holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// Number of the first.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// What they are.
    pub fingerprint: Fingerprint,
}

impl ChunkRun {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// The level of the topmost node of `chunks` chunks: 0 for one.
pub(crate) fn level_of(chunks: u64) -> u8 {
    let mut level = 0;
    let mut covered = 1u64;
    while covered < chunks {
        covered = covered.saturating_mul(FIXED_FANOUT as u64);
        level += 1;
    }
    level
}

/// An object of `len` zero bytes in chunks of 2^`log2`.
pub fn hole(len: u64, log2: u8) -> ObjectRoot {
    ObjectRoot {
        fingerprint: Fingerprint::HOLE,
        len,
        level: level_of(len.div_ceil(1 << log2)),
        layout: Layout::Fixed(log2),
    }
}

/// Folds `edits` (ascending, not overlapping) into an object and makes it `len` bytes long. What is
/// added is a hole. Bytes of the last chunk beyond `len` must be zero: cutting is up to the caller.
pub fn fold(
    root: &ObjectRoot,
    len: u64,
    edits: &[ChunkRun],
    load: &mut LoadNode<'_>,
    store: &mut StoreNode<'_>,
) -> Result<ObjectRoot> {
    debug_assert!(edits.is_sorted_by(|a, b| a.end() <= b.first));
    let Layout::Fixed(log2) = root.layout else {
        let why = "only objects in fixed chunks change in place";
        return Err(StoreError::new(StoreErrorKind::Invalid, why));
    };
    let chunks = |len: u64| len.div_ceil(1 << log2);
    let (had, wanted) = (chunks(root.len), chunks(len));
    let top = level_of(wanted);
    if top > LEVEL_MAX || root.level > LEVEL_MAX {
        return Err(StoreError::new(StoreErrorKind::Invalid, "object too large"));
    }
    let mut folding = Folding {
        layout: root.layout,
        load,
        store,
    };
    let mut fingerprint = root.fingerprint;
    let mut level = root.level;
    while level > top {
        let node = folding.children(fingerprint, level, FIXED_FANOUT as u64)?;
        fingerprint = node.first().copied().unwrap_or_default();
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
    let fingerprint = folding.change(whole, edits.get(..within).unwrap_or_default())?;
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

/// Chunks below a full node of a level.
fn span_of(level: u8) -> u64 {
    (FIXED_FANOUT as u64).saturating_pow(level.into())
}

/// A chunk or node and what lies below it, in chunks.
#[derive(Clone, Copy)]
struct Subtree {
    fingerprint: Fingerprint,
    level: u8,
    /// Below `level` when the tree grew: what is stored is the first child's first child.
    stored_level: u8,
    /// Its first chunk in the object.
    first: u64,
    /// Chunks it had and shall have.
    had: u64,
    wanted: u64,
}

struct Folding<'a, 'l, 's> {
    layout: Layout,
    load: &'a mut LoadNode<'l>,
    store: &'a mut StoreNode<'s>,
}

impl Folding<'_, '_, '_> {
    /// The fingerprint that the subtree has afterwards.
    fn change(&mut self, at: Subtree, edits: &[ChunkRun]) -> Result<Fingerprint> {
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
            // A run of holes may reach into the next child.
            let over = now.last().is_some_and(|e| e.end() > end);
            rest = rest.get(mine - usize::from(over)..).unwrap_or_default();
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

    /// The children of a node, as many as it must have.
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
