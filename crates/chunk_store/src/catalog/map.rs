//! A Merkle B+ tree: sorted edits in, a new root out. The other files of the catalog and the
//! store's commits call this.
//!
//! Invariant: unchanged nodes are shared between the old and the new tree. No node is changed in
//! place.

use crate::error::{Result, StoreError};
use format::map_node::{MAP_NODE_BYTES_MAX, MapChild, MapNode};
use std::ops::ControlFlow;
use units::Fingerprint;
use units::Part;

/// One change: a value for a key, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// A tag, then the name of the object (see the format).
    pub key: Vec<u8>,
    /// The new value; `None` removes the key.
    pub value: Option<Vec<u8>>,
}

/// Loads and stores nodes.
pub trait Nodes {
    /// Returns the decoded node with this fingerprint.
    fn load(&mut self, fingerprint: &Fingerprint) -> Result<MapNode>;
    /// Stores a node's bytes as a chunk.
    fn store(&mut self, bytes: &[u8]) -> Result<Fingerprint>;
}

/// Called with each key and value, in order, until it breaks.
pub(crate) type VisitEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// Called with the damage of a node. `Ok` skips the entries below it, `Err` ends the visit.
pub(crate) type NodeDamage<'a> = dyn FnMut(StoreError) -> Result<()> + 'a;

/// Visits all entries with `key >= from`, in order. Fails at a damaged node.
pub fn visit(
    root: Option<Fingerprint>,
    from: &[u8],
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
    entry: &mut VisitEntry<'_>,
) -> Result<ControlFlow<()>> {
    visit_readable(root, from, load, entry, &mut Err)
}

/// Like [`visit`]; `damage` decides about damaged nodes.
pub fn visit_readable(
    root: Option<Fingerprint>,
    from: &[u8],
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
    entry: &mut VisitEntry<'_>,
    damage: &mut NodeDamage<'_>,
) -> Result<ControlFlow<()>> {
    let Some(root) = root else {
        return Ok(ControlFlow::Continue(()));
    };
    visit_below(&root, None, from, load, entry, damage)
}

/// Returns true if there is an entry with this key.
pub fn holds_key(
    root: Option<Fingerprint>,
    key: &[u8],
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
) -> Result<bool> {
    let mut found = false;
    let _ = visit(root, key, load, &mut |first, _| {
        found = first == key;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

fn visit_below(
    at: &Fingerprint,
    level: Option<u8>,
    from: &[u8],
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
    entry: &mut VisitEntry<'_>,
    damage: &mut NodeDamage<'_>,
) -> Result<ControlFlow<()>> {
    let node = match load(at).and_then(|node| expect_level(at, level, node)) {
        Err(e) if e.is_corruption() => {
            damage(e)?;
            return Ok(ControlFlow::Continue(()));
        }
        node => node?,
    };
    match node {
        MapNode::Leaf(entries) => {
            for (key, value) in entries.iter().filter(|(key, _)| key.as_slice() >= from) {
                if entry(key, value)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        MapNode::Inner(level, children) => {
            let first = children.partition_point(|c| c.first_key.as_slice() <= from);
            for child in children.iter().skip(first.saturating_sub(1)) {
                let below = Some(level - 1);
                if visit_below(&child.fingerprint, below, from, load, entry, damage)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Checks that a node has the level that its parent implies, so that a damaged tree cannot loop.
fn expect_level(at: &Fingerprint, level: Option<u8>, node: MapNode) -> Result<MapNode> {
    let found = match &node {
        MapNode::Leaf(_) => 0,
        MapNode::Inner(level, _) => *level,
    };
    match level {
        Some(level) if level != found => Err(StoreError::corruption(
            "catalog node",
            at,
            format!("level {found}, expected {level}"),
        )),
        _ => Ok(node),
    }
}

/// Applies edits (sorted by key, no key twice) and returns the new root.
pub fn apply(
    root: Option<Fingerprint>,
    edits: &[Edit],
    nodes: &mut dyn Nodes,
) -> Result<Option<Fingerprint>> {
    debug_assert!(edits.is_sorted_by(|a, b| a.key < b.key));
    let mut level = 0;
    let mut children = match root {
        None => write_leaves(merge(Vec::new(), edits), nodes)?,
        Some(_) if edits.is_empty() => return Ok(root),
        Some(root) => {
            let node = nodes.load(&root)?;
            if let MapNode::Inner(l, _) = node {
                level = l;
            }
            rewrite(node, edits, nodes)?
        }
    };
    while children.len() > 1 {
        level += 1;
        children = write_inner(level, children, nodes)?;
    }
    let Some(only) = children.pop() else {
        return Ok(None);
    };
    shrink(only.fingerprint, nodes).map(Some)
}

/// Drops inner nodes with one child from the top.
fn shrink(mut root: Fingerprint, nodes: &mut dyn Nodes) -> Result<Fingerprint> {
    while let MapNode::Inner(_, children) = nodes.load(&root)?
        && let [only] = children.as_slice()
    {
        root = only.fingerprint;
    }
    Ok(root)
}

/// Returns the children that replace `node` in its parent: none, one or several of the same level.
fn rewrite(node: MapNode, edits: &[Edit], nodes: &mut dyn Nodes) -> Result<Vec<MapChild>> {
    match node {
        MapNode::Leaf(entries) => write_leaves(merge(entries, edits), nodes),
        MapNode::Inner(level, children) => {
            let mut out = Vec::with_capacity(children.len());
            let mut rest = edits;
            let mut upcoming = children.into_iter().peekable();
            while let Some(child) = upcoming.next() {
                let mine = match upcoming.peek() {
                    Some(next) => rest.partition_point(|e| e.key < next.first_key),
                    None => rest.len(),
                };
                let (now, later) = rest.split_at(mine);
                rest = later;
                if now.is_empty() {
                    out.push(child);
                } else {
                    let below = nodes.load(&child.fingerprint)?;
                    let below = expect_level(&child.fingerprint, Some(level - 1), below)?;
                    out.extend(rewrite(below, now, nodes)?);
                }
            }
            write_inner(level, out, nodes)
        }
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn merge(old: Pairs, edits: &[Edit]) -> Pairs {
    let mut out = Vec::with_capacity(old.len() + edits.len());
    let mut old = old.into_iter().peekable();
    for edit in edits {
        while let Some(entry) = old.next_if(|(key, _)| *key < edit.key) {
            out.push(entry);
        }
        old.next_if(|(key, _)| *key == edit.key);
        if let Some(value) = &edit.value {
            out.push((edit.key.clone(), value.clone()));
        }
    }
    out.extend(old);
    out
}

fn write_leaves(entries: Pairs, nodes: &mut dyn Nodes) -> Result<Vec<MapChild>> {
    let size = |(key, value): &(Vec<u8>, Vec<u8>)| key.len() + value.len() + 6;
    let mut out = Vec::new();
    for group in grouped(entries, size) {
        let first_key = group.item(0)?.0.clone();
        let fingerprint = nodes.store(&MapNode::Leaf(group).encode())?;
        out.push(MapChild {
            first_key,
            fingerprint,
        });
    }
    Ok(out)
}

fn write_inner(level: u8, children: Vec<MapChild>, nodes: &mut dyn Nodes) -> Result<Vec<MapChild>> {
    let mut out = Vec::new();
    for group in grouped(children, |c| c.first_key.len() + 35) {
        let first_key = group.item(0)?.first_key.clone();
        let fingerprint = nodes.store(&MapNode::Inner(level, group).encode())?;
        out.push(MapChild {
            first_key,
            fingerprint,
        });
    }
    Ok(out)
}

/// Cuts items into nearly equal groups that each fit into a node, so that no group is tiny.
fn grouped<T>(items: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let total: usize = items.iter().map(&size).sum();
    let groups = total.div_ceil(MAP_NODE_BYTES_MAX).max(1);
    let share = total.div_ceil(groups);
    let mut out: Vec<Vec<T>> = Vec::new();
    let mut filled = usize::MAX;
    for item in items {
        let bytes = size(&item);
        if filled >= share {
            out.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(group) = out.last_mut() {
            group.push(item);
        }
    }
    out
}

#[cfg(test)]
mod tests;
