//! Compares two objects in fixed layout by their Merkle trees. The read path calls this.
//!
//! Invariant: the cost depends on the difference and not on the size: equal nodes are not loaded.
//! Ranges that are not reported are equal. Reported ranges differ in at least one byte of each
//! chunk, except the last chunk of the shorter object, where only the padding may differ.

use super::walk::{Leaf, LoadNode, expect_node};
use crate::error::{Result, StoreError, StoreErrorKind};
use format::recipe::{Layout, ObjectRoot, RecipeNode};
use std::ops::{ControlFlow, Range};
use units::Fingerprint;

/// Called with the differing ranges, ascending and not adjacent.
pub(crate) type VisitRange<'a> = dyn FnMut(Range<u64>) -> Result<ControlFlow<()>> + 'a;

/// A subtree of one object.
#[derive(Clone, Copy)]
struct Part {
    fingerprint: Fingerprint,
    level: u8,
}

struct Difference<'a, 'b> {
    roots: [&'a ObjectRoot; 2],
    log2: u8,
    /// Length that both objects have, bytes.
    common: u64,
    /// Only this range is compared.
    within: Range<u64>,
    load: &'a mut LoadNode<'b>,
    visit: &'a mut VisitRange<'b>,
    /// A found range that is not reported yet: the next one may extend it.
    open: Range<u64>,
}

/// Visits the byte ranges within `within` in which two objects differ. The tail of the longer one
/// counts as a difference. Fails with `Invalid` unless both are in fixed layout with the same chunk
/// size, or one is empty.
pub fn visit_differences<'b>(
    before: &ObjectRoot,
    after: &ObjectRoot,
    within: Range<u64>,
    load: &mut LoadNode<'b>,
    visit: &mut VisitRange<'b>,
) -> Result<()> {
    let (common, longest) = (before.len.min(after.len), before.len.max(after.len));
    let log2 = match (before.layout, after.layout) {
        (Layout::Fixed(a), Layout::Fixed(b)) if a == b => a,
        // Nothing needs comparing: one object is empty.
        _ if common == 0 => 0,
        _ => {
            let why = "only objects with chunks of the same fixed size can be compared";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
    };
    let mut difference = Difference {
        roots: [before, after],
        log2,
        common,
        within,
        load,
        visit,
        open: 0..0,
    };
    let parts = [before, after].map(|root| Part {
        fingerprint: root.fingerprint,
        level: root.level,
    });
    let top = before.level.max(after.level);
    if common > 0 && difference.below(top, parts, 0)?.is_break() {
        return Ok(());
    }
    if difference.found(common..longest)?.is_continue() && !difference.open.is_empty() {
        let _ = (difference.visit)(difference.open)?;
    }
    Ok(())
}

impl Difference<'_, '_> {
    /// Returns how many bytes a full subtree of this level covers.
    fn span(&self, level: u8) -> u64 {
        RecipeNode::fixed_child_bytes(self.log2, level.saturating_add(1))
    }

    /// Compares two subtrees of at most this level that begin at `offset`.
    fn below(&mut self, level: u8, parts: [Part; 2], offset: u64) -> Result<ControlFlow<()>> {
        let [a, b] = parts;
        let same_level = a.level == b.level || a.fingerprint.is_hole();
        let end = offset.saturating_add(self.span(level));
        let outside = offset >= self.within.end || end <= self.within.start;
        if outside || a.fingerprint == b.fingerprint && same_level {
            return Ok(ControlFlow::Continue(()));
        }
        if level == 0 {
            return self.found(offset..end.min(self.common));
        }
        let before = self.children(0, a, level, offset)?;
        let after = self.children(1, b, level, offset)?;
        let step = self.span(level - 1);
        let mut at = offset;
        let mut number = 0;
        while at < self.common && at - offset < self.span(level) {
            let [a, b] = [&before, &after].map(|children| children.at(number, level - 1));
            if self.below(level - 1, [a, b], at)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            at = at.saturating_add(step);
            number += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn children(&mut self, side: usize, part: Part, level: u8, offset: u64) -> Result<Children> {
        let Some(root) = self.roots.get(side) else {
            return Ok(Children::None);
        };
        if part.fingerprint.is_hole() {
            return Ok(Children::Hole);
        }
        if part.level < level {
            // A lower tree counts as the only child of a higher one.
            return Ok(Children::First(part));
        }
        let node = (self.load)(&part.fingerprint)?;
        let at = Leaf {
            offset,
            len: self.span(level).min(root.len.saturating_sub(offset)),
            fingerprint: part.fingerprint,
        };
        expect_node(root, level, &at, &node)?;
        Ok(Children::All(node.children))
    }

    fn found(&mut self, range: Range<u64>) -> Result<ControlFlow<()>> {
        let range = range.start.max(self.within.start)..range.end.min(self.within.end);
        if range.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if self.open.end == range.start && !self.open.is_empty() {
            self.open.end = range.end;
            return Ok(ControlFlow::Continue(()));
        }
        match std::mem::replace(&mut self.open, range) {
            reported if reported.is_empty() => Ok(ControlFlow::Continue(())),
            reported => (self.visit)(reported),
        }
    }
}

/// Children of a subtree.
enum Children {
    None,
    Hole,
    First(Part),
    All(Vec<Fingerprint>),
}

impl Children {
    fn at(&self, number: usize, level: u8) -> Part {
        let fingerprint = match self {
            Self::First(part) if number == 0 => return *part,
            Self::All(children) => children.get(number).copied(),
            _ => None,
        };
        Part {
            fingerprint: fingerprint.unwrap_or(Fingerprint::HOLE),
            level,
        }
    }
}

#[cfg(test)]
mod tests;
