//! Builds an [`ObjectRoot`] from a sequence of chunks. Sessions call this.
//!
//! Invariant: the same chunks with the same lengths give the same root. Memory is one path of the
//! tree.

use crate::error::{Result, StoreError, StoreErrorKind};
use format::recipe::{
    FIXED_FANOUT, LEVEL_MAX, Layout, ObjectRoot, RecipeNode, VARIABLE_FANOUT_MAX,
};
use units::Fingerprint;

/// In variable layout a node ends after a child whose fingerprint has these bits zero, so that an
/// insertion changes few nodes.
const VARIABLE_CUT_MASK: u16 = 0x1ff;
/// Number of children before which a node does not end.
const VARIABLE_FANOUT_MIN: usize = 64;

struct Pending {
    children: Vec<Fingerprint>,
    lengths: Vec<u64>,
}

/// Collects chunks in order, and stores recipe nodes as they fill.
pub struct ObjectBuilder {
    layout: Layout,
    len: u64,
    /// `levels[n]` collects the children of a node of level n + 1.
    levels: Vec<Pending>,
}

/// Stores a node's bytes as a chunk and returns its fingerprint.
pub type StoreNode<'a> = dyn FnMut(&[u8]) -> Result<Fingerprint> + 'a;

impl ObjectBuilder {
    /// Creates an empty object.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            len: 0,
            levels: Vec::new(),
        }
    }

    /// Appends a chunk of `len` plain bytes; [`Fingerprint::HOLE`] for zeroes. In fixed layout each
    /// chunk except the last must have the full chunk size.
    pub fn push(&mut self, chunk: Fingerprint, len: u64, store: &mut StoreNode<'_>) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.len = self.len.checked_add(len).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Invalid,
                "the object is longer than 2^64 bytes",
            )
        })?;
        self.push_at(0, chunk, len, store)
    }

    fn push_at(
        &mut self,
        level: usize,
        child: Fingerprint,
        len: u64,
        store: &mut StoreNode<'_>,
    ) -> Result<()> {
        if level >= usize::from(LEVEL_MAX) {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                "the object is too large",
            ));
        }
        if self.levels.len() <= level {
            self.levels.push(Pending {
                children: Vec::new(),
                lengths: Vec::new(),
            });
        }
        let variable = self.layout == Layout::Variable;
        let pending = &mut self.levels[level];
        if variable
            && child.is_hole()
            && pending.children.last().is_some_and(Fingerprint::is_hole)
            && let Some(last) = pending.lengths.last_mut()
        {
            *last += len;
            return Ok(());
        }
        pending.children.push(child);
        pending.lengths.push(len);
        let count = pending.children.len();
        let full = if variable {
            let [.., a, b] = child.0;
            let cut = u16::from_le_bytes([a, b]) & VARIABLE_CUT_MASK == 0 && !child.is_hole();
            count >= VARIABLE_FANOUT_MAX || (cut && count >= VARIABLE_FANOUT_MIN)
        } else {
            count == FIXED_FANOUT
        };
        if full {
            self.close(level, store)
        } else {
            Ok(())
        }
    }

    /// Stores the node that is collected at `level` and adds it to the level above.
    fn close(&mut self, level: usize, store: &mut StoreNode<'_>) -> Result<()> {
        let Some(pending) = self.levels.get_mut(level) else {
            return Ok(());
        };
        let children = std::mem::take(&mut pending.children);
        let mut lengths = std::mem::take(&mut pending.lengths);
        let total = lengths.iter().sum();
        let fingerprint = if children.iter().all(Fingerprint::is_hole) {
            Fingerprint::HOLE
        } else {
            if self.layout != Layout::Variable {
                lengths.clear();
            }
            let node = RecipeNode {
                level: level as u8 + 1,
                layout: self.layout,
                children,
                lengths,
            };
            store(&node.encode())?
        };
        self.push_at(level + 1, fingerprint, total, store)
    }

    /// Stores the rest as one node of `level` (not 0), for callers that rebuild a part of an
    /// object. Fails with `Invalid` if the chunks do not make exactly one such node.
    pub fn finish_node(mut self, level: u8, store: &mut StoreNode<'_>) -> Result<Fingerprint> {
        let level = usize::from(level);
        for below in 0..level {
            let is_open = |pending: &Pending| !pending.children.is_empty();
            if self.levels.get(below).is_some_and(is_open) {
                self.close(below, store)?;
            }
        }
        match self.levels.get(level).map(|pending| &pending.children[..]) {
            Some([only]) => Ok(*only),
            _ => {
                let why = "the piece is not what one recipe node covers";
                Err(StoreError::new(StoreErrorKind::Invalid, why))
            }
        }
    }

    /// Stores the rest and returns the object.
    pub fn finish(mut self, store: &mut StoreNode<'_>) -> Result<ObjectRoot> {
        if self.len == 0 {
            return Ok(ObjectRoot {
                layout: self.layout,
                ..ObjectRoot::EMPTY
            });
        }
        let mut level = 0;
        loop {
            let top = level + 1 == self.levels.len();
            let Some(pending) = self.levels.get(level) else {
                return Err(StoreError::new(
                    StoreErrorKind::Invalid,
                    "the object has no chunks",
                ));
            };
            if top && let [only] = pending.children[..] {
                return Ok(ObjectRoot {
                    fingerprint: only,
                    len: self.len,
                    level: level as u8,
                    layout: self.layout,
                });
            }
            if !pending.children.is_empty() {
                self.close(level, store)?;
            }
            level += 1;
        }
    }
}
