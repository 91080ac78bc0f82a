//! Walks from an [`ObjectRoot`] to its chunks. The read path, check and volumes call this.
//!
//! Invariant: walks over whole nodes check that each has the level, layout and length that its
//! parent implies, and fail with corruption otherwise. Lookups of one chunk ([`fixed_chunk`],
//! [`FixedLeaves`]) check only level and layout.

use crate::error::{Result, StoreError};
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use std::ops::ControlFlow;
use units::Fingerprint;

/// One chunk of an object, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// First byte in the object.
    pub offset: u64,
    /// Length of its range, bytes. In fixed layout the last range may be shorter than the chunk.
    pub len: u64,
    /// The chunk, or [`Fingerprint::HOLE`].
    pub fingerprint: Fingerprint,
}

/// Returns the decoded node with this fingerprint.
pub(crate) type LoadNode<'a> = dyn FnMut(&Fingerprint) -> Result<RecipeNode> + 'a;

/// Visits the leaves that overlap `[from, to)`, in order. A hole is one leaf of any length.
pub fn visit_leaves(
    root: &ObjectRoot,
    from: u64,
    to: u64,
    load: &mut LoadNode<'_>,
    visit: &mut dyn FnMut(Leaf) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let to = to.min(root.len);
    if from >= to {
        return Ok(ControlFlow::Continue(()));
    }
    let top = Leaf {
        offset: 0,
        len: root.len,
        fingerprint: root.fingerprint,
    };
    descend(root, root.level, top, from, to, load, visit)
}

fn descend(
    root: &ObjectRoot,
    level: u8,
    at: Leaf,
    from: u64,
    to: u64,
    load: &mut LoadNode<'_>,
    visit: &mut dyn FnMut(Leaf) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    if level == 0 || at.fingerprint.is_hole() {
        return visit(at);
    }
    let node = load(&at.fingerprint)?;
    expect_node(root, level, &at, &node)?;
    for below in children(root, level, at, &node) {
        if below.offset >= to {
            break;
        }
        let overlaps = below.offset + below.len > from && below.len > 0;
        if overlaps && descend(root, level - 1, below, from, to, load, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Returns the children of a node that [`expect_node`] accepted.
pub(super) fn children<'n>(
    root: &ObjectRoot,
    level: u8,
    at: Leaf,
    node: &'n RecipeNode,
) -> impl Iterator<Item = Leaf> + 'n {
    let (layout, end) = (root.layout, at.offset + at.len);
    let mut offset = at.offset;
    let numbered = node.children.iter().enumerate();
    numbered.map(move |(number, child)| {
        let len = match layout {
            Layout::Fixed(log2) => RecipeNode::fixed_child_bytes(log2, level).min(end - offset),
            Layout::Variable => node.lengths.get(number).copied().unwrap_or(0),
        };
        let below = Leaf {
            offset,
            len,
            fingerprint: *child,
        };
        offset += len;
        below
    })
}

/// Checks that a node has the level, layout and length that its parent implies.
pub(super) fn expect_node(
    root: &ObjectRoot,
    level: u8,
    at: &Leaf,
    node: &RecipeNode,
) -> Result<()> {
    let covered = match root.layout {
        Layout::Variable => node.lengths.iter().sum(),
        Layout::Fixed(log2) => {
            let child = RecipeNode::fixed_child_bytes(log2, level);
            if at.len.div_ceil(child) == node.children.len() as u64 {
                at.len
            } else {
                0
            }
        }
    };
    if node.level == level && node.layout == root.layout && covered == at.len {
        return Ok(());
    }
    let found = format!(
        "level {}, {} bytes, expected {level}, {}",
        node.level, covered, at.len
    );
    Err(StoreError::corruption("recipe node", at.fingerprint, found))
}

/// Returns the chunk at byte `offset` of an object in fixed layout, with one node read for each
/// level. `raw` returns the verified bytes of a node. Only the one child is decoded.
pub fn fixed_chunk<B: AsRef<[u8]>>(
    root: &ObjectRoot,
    log2: u8,
    offset: u64,
    raw: &mut dyn FnMut(&Fingerprint) -> Result<B>,
) -> Result<Fingerprint> {
    let mut fingerprint = root.fingerprint;
    let mut rest = offset;
    for level in (1..=root.level).rev() {
        if fingerprint.is_hole() {
            break;
        }
        let bytes = raw(&fingerprint)?;
        let bytes = bytes.as_ref();
        let child_bytes = RecipeNode::fixed_child_bytes(log2, level);
        let number = usize::try_from(rest / child_bytes).unwrap_or(usize::MAX);
        rest %= child_bytes;
        fingerprint = match node_child(bytes, level, log2, number) {
            Some(child) => child,
            None => return Err(wrong_node(fingerprint)),
        };
    }
    Ok(fingerprint)
}

/// The chunks below a node of level 1, or below a hole in its place.
pub struct FixedLeaves<B> {
    /// First byte of the range, and the first one after it.
    start: u64,
    end: u64,
    log2: u8,
    /// The chunk of an object of one chunk, or the hole, if `node` is `None`.
    only: Fingerprint,
    node: Option<B>,
}

impl<B: AsRef<[u8]>> FixedLeaves<B> {
    /// Finds the leaves around byte `offset`, with one node read for each level.
    fn find(
        root: &ObjectRoot,
        log2: u8,
        offset: u64,
        raw: &mut dyn FnMut(&Fingerprint) -> Result<B>,
    ) -> Result<Self> {
        let (mut start, mut fingerprint, mut level) = (0, root.fingerprint, root.level);
        loop {
            let bytes_under = match level {
                0 => 1 << log2,
                // A node of this level covers as much as a child of the level above.
                _ => RecipeNode::fixed_child_bytes(log2, level.saturating_add(1)),
            };
            let mut leaves = Self {
                start,
                end: start.saturating_add(bytes_under),
                log2,
                only: fingerprint,
                node: None,
            };
            if level == 0 || fingerprint.is_hole() {
                return Ok(leaves);
            }
            let bytes = raw(&fingerprint)?;
            if level == 1 {
                leaves.node = Some(bytes);
                return Ok(leaves);
            }
            let child_bytes = RecipeNode::fixed_child_bytes(log2, level);
            let number = (offset - start) / child_bytes;
            let child = usize::try_from(number).ok();
            let child = child.and_then(|n| node_child(bytes.as_ref(), level, log2, n));
            fingerprint = child.ok_or_else(|| wrong_node(fingerprint))?;
            start += number * child_bytes;
            level -= 1;
        }
    }

    /// Returns the chunk at byte `offset`. Uses `last` if it covers the offset, and replaces it
    /// otherwise.
    pub fn chunk_at(
        last: &mut Option<Self>,
        root: &ObjectRoot,
        log2: u8,
        offset: u64,
        raw: &mut dyn FnMut(&Fingerprint) -> Result<B>,
    ) -> Result<Fingerprint> {
        if let Some(leaves) = last.as_ref().filter(|l| (l.start..l.end).contains(&offset)) {
            return leaves.chunk(offset);
        }
        let leaves = Self::find(root, log2, offset, raw)?;
        last.insert(leaves).chunk(offset)
    }

    /// Returns the chunk at byte `offset`, which must be in the range.
    fn chunk(&self, offset: u64) -> Result<Fingerprint> {
        let Some(node) = &self.node else {
            return Ok(self.only);
        };
        let number = usize::try_from(offset.saturating_sub(self.start) >> self.log2).ok();
        number
            .and_then(|n| node_child(node.as_ref(), 1, self.log2, n))
            .ok_or_else(|| wrong_node(self.only))
    }
}

fn wrong_node(fingerprint: Fingerprint) -> StoreError {
    let found = "this is not the node that the recipe needs";
    StoreError::corruption("recipe node", fingerprint, found)
}

/// Decodes one child of an encoded node in fixed layout (see `format::recipe`).
fn node_child(bytes: &[u8], level: u8, log2: u8, number: usize) -> Option<Fingerprint> {
    let [0x52, format::recipe::RECIPE_VERSION, at_level, layout, ..] = *bytes else {
        return None;
    };
    if at_level != level || layout != log2 {
        return None;
    }
    let start = number.checked_mul(32)?.checked_add(8)?;
    bytes.get(start..)?.first_chunk().copied().map(Fingerprint)
}

/// Visits the nodes and chunks of an object: top down, children in order, no holes. `enter` gets
/// each one and its level (0 for a chunk), and returns true if the walk should go below it.
pub fn visit_nodes(
    root: &ObjectRoot,
    load: &mut LoadNode<'_>,
    enter: &mut dyn FnMut(&Leaf, u8) -> Result<bool>,
) -> Result<()> {
    fn below(
        root: &ObjectRoot,
        at: Leaf,
        level: u8,
        load: &mut LoadNode<'_>,
        enter: &mut dyn FnMut(&Leaf, u8) -> Result<bool>,
    ) -> Result<()> {
        if at.fingerprint.is_hole() || !enter(&at, level)? || level == 0 {
            return Ok(());
        }
        let node = load(&at.fingerprint)?;
        expect_node(root, level, &at, &node)?;
        for child in children(root, level, at, &node) {
            below(root, child, level - 1, load, enter)?;
        }
        Ok(())
    }
    if root.len == 0 {
        return Ok(());
    }
    let top = Leaf {
        offset: 0,
        len: root.len,
        fingerprint: root.fingerprint,
    };
    below(root, top, root.level, load, enter)
}
