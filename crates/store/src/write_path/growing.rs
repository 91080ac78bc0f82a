//! An object in fixed chunks that a session builds in any order, on top of an existing one.
//! Replication calls this: its chunks come in the order of places in memory.
//!
//! Invariant: the result is the root that building the whole object in order would give. A node
//! that is replaced after it was stored is garbage. There is little of it: nodes over chunks are
//! stored once if their chunks come together.

use super::lane::Lane;
use chunk_store::Result;
use chunk_store::recipe::{ChunkRun, apply, hole};
use format::recipe::{ObjectRoot, RecipeNode};
use read_path::{Reader, node_error};
use std::collections::HashMap;
use units::Fingerprint;

/// See the module's head.
pub struct GrowingObject {
    root: ObjectRoot,
    len: u64,
    /// Nodes over nodes that no commit has made readable yet. Nodes over chunks are not kept: each
    /// is stored once and not read again.
    unread: HashMap<Fingerprint, Vec<u8>>,
}

impl GrowingObject {
    /// Creates an object of `len` bytes on top of `base`. The space beyond `base` is a hole.
    pub fn over(base: ObjectRoot, len: u64) -> Self {
        Self {
            root: base,
            len,
            unread: HashMap::new(),
        }
    }

    /// Creates an object of `len` zero bytes in chunks of 2^`log2` bytes.
    pub fn empty(len: u64, log2: u8) -> Self {
        Self::over(hole(len, log2), len)
    }

    /// Adds stored chunks, in any order, not overlapping. Fails with `Invalid` unless the object is
    /// in fixed layout.
    pub fn put(&mut self, runs: &mut [ChunkRun], reader: &Reader, lane: &mut Lane) -> Result<()> {
        runs.sort_unstable_by_key(|run| run.first);
        // A replaced node stays in memory: another part of the object may be equal.
        let unread = &self.unread;
        let mut stored = Vec::new();
        let mut load = |at: &Fingerprint| match unread.get(at) {
            Some(bytes) => RecipeNode::decode(bytes).map_err(|e| node_error(at, e)),
            None => reader.recipe_node(at),
        };
        let mut store = |node: &[u8]| {
            let fingerprint = lane.store_node(node)?;
            if RecipeNode::level_of(node) >= Some(2) {
                stored.push((fingerprint, node.to_vec()));
            }
            Ok(fingerprint)
        };
        self.root = apply(&self.root, self.len, runs, &mut load, &mut store)?;
        self.unread.extend(stored);
        Ok(())
    }

    /// Returns the object in its current state.
    pub fn root(&self) -> ObjectRoot {
        self.root
    }

    /// Returns the number of nodes in memory. A commit drops them.
    pub fn nodes_in_memory(&self) -> usize {
        self.unread.len()
    }

    /// Drops the nodes in memory: the session has committed, so they can be read.
    pub fn committed(&mut self) {
        self.unread.clear();
    }
}
