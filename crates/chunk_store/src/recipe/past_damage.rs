//! Visits an object's chunks and skips damaged parts of its recipe, for readers that want the
//! remaining data. The read path calls this.
//!
//! Invariant: every byte of the object is visited once, in order: as a chunk, as a hole, or as the
//! range of a damaged node.

use super::walk::{Leaf, LoadNode, children, expect_node};
use crate::error::Result;
use format::recipe::ObjectRoot;
use std::ops::ControlFlow;
use units::Fingerprint;

/// Called with a piece: offset, length, and its chunk or the error of the node above it.
pub type VisitPiece<'a> = dyn FnMut(u64, u64, Result<Fingerprint>) -> Result<ControlFlow<()>> + 'a;

/// Visits all pieces of an object.
pub fn visit_past_damage(
    root: &ObjectRoot,
    load: &mut LoadNode<'_>,
    visit: &mut VisitPiece<'_>,
) -> Result<()> {
    let top = Leaf {
        offset: 0,
        len: root.len,
        fingerprint: root.fingerprint,
    };
    match root.len {
        0 => Ok(()),
        _ => descend(root, root.level, top, load, visit).map(drop),
    }
}

fn descend(
    root: &ObjectRoot,
    level: u8,
    at: Leaf,
    load: &mut LoadNode<'_>,
    visit: &mut VisitPiece<'_>,
) -> Result<ControlFlow<()>> {
    if level == 0 || at.fingerprint.is_hole() {
        return visit(at.offset, at.len, Ok(at.fingerprint));
    }
    let node = load(&at.fingerprint).and_then(|node| {
        expect_node(root, level, &at, &node)?;
        Ok(node)
    });
    let node = match node {
        Err(e) if e.is_corruption() => return visit(at.offset, at.len, Err(e)),
        node => node?,
    };
    for below in children(root, level, at, &node) {
        if below.len > 0 && descend(root, level - 1, below, load, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;
    use format::recipe::{Layout, RecipeNode};

    fn fingerprint(number: u8) -> Fingerprint {
        Fingerprint([number; 32])
    }

    #[test]
    fn a_damaged_node_is_one_lost_piece() {
        let layout = Layout::Fixed(12);
        let node = |level, children: &[u8]| RecipeNode {
            level,
            layout,
            children: children.iter().map(|n| fingerprint(*n)).collect(),
            lengths: Vec::new(),
        };
        let span = RecipeNode::fixed_child_bytes(12, 2);
        let root = ObjectRoot {
            fingerprint: fingerprint(9),
            len: span + 5000,
            layout,
            level: 2,
        };
        let mut load = |f: &Fingerprint| match f.0[0] {
            9 => Ok(node(2, &[7, 8])),
            8 => Ok(node(1, &[1, 2])),
            _ => Err(StoreError::corruption("recipe node", f, "torn")),
        };
        let mut seen = Vec::new();
        visit_past_damage(&root, &mut load, &mut |offset, len, piece| {
            seen.push((offset, len, piece.ok().map(|f| f.0[0])));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        let rest = [(span, 4096, Some(1)), (span + 4096, 904, Some(2))];
        assert_eq!(seen, [vec![(0, span, None)], rest.to_vec()].concat());
    }
}
