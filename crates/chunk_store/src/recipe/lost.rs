//! Finds the lost parts of an object, for repair from a good copy. The read path calls this.
//!
//! Invariant: a part is lost if no sound region has it. Nothing below a lost node is visited,
//! because its children are unknown. A subtree that was found complete is not walked twice.

use super::walk::{Leaf, LoadNode, children, expect_node};
use crate::error::Result;
use format::recipe::ObjectRoot;
use std::collections::HashSet;
use units::Fingerprint;

/// Maximum number of nodes that are remembered as complete: about 40 bytes each. Others are walked
/// again.
const WHOLE_MAX: usize = 1 << 20;

/// A chunk, or a recipe node with everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPart {
    /// First byte in the object.
    pub offset: u64,
    /// Length of its range of the object, bytes.
    pub len: u64,
    /// 0: a chunk.
    pub level: u8,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
}

/// Restores lost parts.
pub trait Repairing {
    /// Returns true if the part is stored, by the pool or by this repair.
    fn holds(&mut self, fingerprint: &Fingerprint) -> Result<bool>;

    /// Stores a lost part. Returns true if it could. An error ends the walk.
    fn repair(&mut self, part: &LostPart) -> Result<bool>;
}

/// Passes every lost part of an object to `repairing` once. Returns true if the object is now known
/// to be complete; below a restored node nothing was visited yet. `whole` is the set of nodes that
/// are complete with everything below them.
pub fn repair_object(
    root: &ObjectRoot,
    whole: &mut HashSet<Fingerprint>,
    load: &mut LoadNode<'_>,
    repairing: &mut dyn Repairing,
) -> Result<bool> {
    if root.len == 0 {
        return Ok(true);
    }
    let top = Leaf {
        offset: 0,
        len: root.len,
        fingerprint: root.fingerprint,
    };
    below(root, top, root.level, whole, load, repairing)
}

fn below(
    root: &ObjectRoot,
    at: Leaf,
    level: u8,
    whole: &mut HashSet<Fingerprint>,
    load: &mut LoadNode<'_>,
    repairing: &mut dyn Repairing,
) -> Result<bool> {
    if at.fingerprint.is_hole() || level > 0 && whole.contains(&at.fingerprint) {
        return Ok(true);
    }
    let is_stored = repairing.holds(&at.fingerprint)?;
    let node = match (is_stored, level) {
        (true, 0) => return Ok(true),
        (false, _) => None,
        (true, _) => match load(&at.fingerprint) {
            Err(e) if e.is_corruption() => None,
            node => Some(node?),
        },
    };
    let Some(node) = node else {
        let repaired = repairing.repair(&LostPart {
            offset: at.offset,
            len: at.len,
            level,
            fingerprint: at.fingerprint,
        })?;
        return Ok(repaired && level == 0);
    };
    expect_node(root, level, &at, &node)?;
    let mut is_whole = true;
    for child in children(root, level, at, &node) {
        is_whole &= below(root, child, level - 1, whole, load, repairing)?;
    }
    if is_whole && whole.len() < WHOLE_MAX {
        whole.insert(at.fingerprint);
    }
    Ok(is_whole)
}
