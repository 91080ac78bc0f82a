//! The parts of an object that are lost: for who can bring them back from somewhere else.
//!
//! Invariant: a part is lost when no sound region holds it, whoever says so; nothing below a lost node is
//! looked at, as nothing is known of it. What was found whole is not walked twice. Called by the
//! read path, for repairs.

use super::walk::{Leaf, LoadNode, children, expect_node};
use crate::error::Result;
use format::recipe::ObjectRoot;
use std::collections::HashSet;
use units::Fingerprint;

/// Nodes that are remembered as whole, at most: about 40 bytes each. Others are walked again.
const WHOLE_MAX: usize = 1 << 20;

/// A chunk, or a recipe node with all that is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPart {
    /// First byte in the object.
    pub offset: u64,
    /// Bytes of the object that it stands for.
    pub len: u64,
    /// 0: a chunk.
    pub level: u8,
    /// What it was called.
    pub fingerprint: Fingerprint,
}

/// Who brings lost parts back.
pub trait Mending {
    /// True when the part is stored, by the pool or by who mends.
    fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool>;

    /// Stores a part that is lost; true when it did. An error ends the walk.
    fn mend(&mut self, part: &LostPart) -> Result<bool>;
}

/// Hands every lost part of an object out once. True when the object is whole now, as far as it can be
/// read: below a node that was brought back nothing was looked at yet. `whole` are nodes that
/// are, with all below them.
pub fn mend_object(
    root: &ObjectRoot,
    whole: &mut HashSet<Fingerprint>,
    load: &mut LoadNode<'_>,
    mending: &mut dyn Mending,
) -> Result<bool> {
    if root.len == 0 {
        return Ok(true);
    }
    let top = Leaf {
        offset: 0,
        len: root.len,
        fingerprint: root.fingerprint,
    };
    below(root, top, root.level, whole, load, mending)
}

fn below(
    root: &ObjectRoot,
    at: Leaf,
    level: u8,
    whole: &mut HashSet<Fingerprint>,
    load: &mut LoadNode<'_>,
    mending: &mut dyn Mending,
) -> Result<bool> {
    if at.fingerprint.is_hole() || level > 0 && whole.contains(&at.fingerprint) {
        return Ok(true);
    }
    let is_stored = mending.holds(&at.fingerprint)?;
    let node = match (is_stored, level) {
        (true, 0) => return Ok(true),
        (false, _) => None,
        (true, _) => match load(&at.fingerprint) {
            Err(e) if e.is_corruption() => None,
            node => Some(node?),
        },
    };
    let Some(node) = node else {
        let mended = mending.mend(&LostPart {
            offset: at.offset,
            len: at.len,
            level,
            fingerprint: at.fingerprint,
        })?;
        return Ok(mended && level == 0);
    };
    expect_node(root, level, &at, &node)?;
    let mut is_whole = true;
    for child in children(root, level, at, &node) {
        is_whole &= below(root, child, level - 1, whole, load, mending)?;
    }
    if is_whole && whole.len() < WHOLE_MAX {
        whole.insert(at.fingerprint);
    }
    Ok(is_whole)
}
