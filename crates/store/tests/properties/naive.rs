//! A naive model of recipes: level by level, everything in memory. It is slow and short, and
//! written from the description of the layout alone.

use super::Chunk;
use chunking::FingerprintKey;
use format::recipe::{FIXED_FANOUT, Layout, ObjectRoot, RecipeNode, VARIABLE_FANOUT_MAX};
use std::collections::HashMap;
use units::Fingerprint;

/// Returns the root that these chunks must have.
pub fn root(layout: Layout, chunks: &[Chunk]) -> ObjectRoot {
    let mut level = chunks.to_vec();
    let mut height = 0;
    let mut groups = grouped(layout, &level);
    if chunks.is_empty() {
        return ObjectRoot {
            layout,
            ..ObjectRoot::EMPTY
        };
    }
    // A level is the top if one child is left and no node of it was full.
    while !(groups.len() == 1 && groups[0].0.len() == 1 && !groups[0].1) {
        level = groups
            .iter()
            .map(|(group, _)| node(layout, height + 1, group))
            .collect();
        height += 1;
        groups = grouped(layout, &level);
    }
    ObjectRoot {
        fingerprint: groups[0].0[0].0,
        len: chunks.iter().map(|(_, len)| len).sum(),
        level: height,
        layout,
    }
}

/// Returns the children of the nodes of one level, and true for each full node.
fn grouped(layout: Layout, level: &[Chunk]) -> Vec<(Vec<Chunk>, bool)> {
    let mut groups: Vec<(Vec<Chunk>, bool)> = Vec::new();
    for (print, len) in level {
        if groups.last().is_none_or(|(_, full)| *full) {
            groups.push((Vec::new(), false));
        }
        let (group, full) = groups.last_mut().expect("one was pushed");
        if layout == Layout::Variable
            && print.is_hole()
            && let Some((last, last_len)) = group.last_mut()
            && last.is_hole()
        {
            *last_len += len;
            continue;
        }
        group.push((*print, *len));
        *full = match layout {
            Layout::Fixed(_) => group.len() == FIXED_FANOUT,
            Layout::Variable => {
                let end = u16::from_le_bytes([print.0[30], print.0[31]]);
                let cut = !print.is_hole() && end % 512 == 0 && group.len() >= 64;
                cut || group.len() == VARIABLE_FANOUT_MAX
            }
        };
    }
    groups
}

fn node(layout: Layout, level: u8, children: &[Chunk]) -> Chunk {
    let total = children.iter().map(|(_, len)| len).sum();
    if children.iter().all(|(print, _)| print.is_hole()) {
        return (Fingerprint::HOLE, total);
    }
    let node = RecipeNode {
        level,
        layout,
        children: children.iter().map(|(print, _)| *print).collect(),
        lengths: match layout {
            Layout::Variable => children.iter().map(|(_, len)| *len).collect(),
            Layout::Fixed(_) => Vec::new(),
        },
    };
    let key = FingerprintKey::new([1; 32]);
    (key.fingerprint(&node.encode()), total)
}

/// Returns the chunks below a root.
pub fn leaves(root: &ObjectRoot, nodes: &HashMap<Fingerprint, RecipeNode>) -> Vec<Chunk> {
    let mut level = vec![(root.fingerprint, root.len)];
    for height in (1..=root.level).rev() {
        let mut below = Vec::new();
        for (print, len) in level {
            if print.is_hole() {
                below.push((print, len));
                continue;
            }
            let node = &nodes[&print];
            assert_eq!((node.level, node.layout), (height, root.layout));
            let mut rest = len;
            for (n, child) in node.children.iter().enumerate() {
                let len = match root.layout {
                    Layout::Variable => node.lengths[n],
                    Layout::Fixed(log2) => RecipeNode::fixed_child_bytes(log2, height).min(rest),
                };
                below.push((*child, len));
                rest -= len;
            }
            assert_eq!(rest, 0, "a node covers what its parent says");
        }
        level = below;
    }
    level.retain(|(_, len)| *len > 0);
    level
}

/// Joins adjacent holes: how they are cut is not a property of the object.
pub fn runs(chunks: &[Chunk]) -> Vec<Chunk> {
    let mut runs: Vec<Chunk> = Vec::new();
    for (print, len) in chunks {
        match runs.last_mut() {
            Some((last, last_len)) if last.is_hole() && print.is_hole() => *last_len += len,
            _ => runs.push((*print, *len)),
        }
    }
    runs
}
