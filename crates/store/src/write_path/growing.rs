//! An object in fixed chunks that a session builds in any order, over one that the pool has.
//!
//! Invariant: the result is the root that building the whole object in order would give; a node that
//! was stored and is replaced later is garbage, of which there is little: nodes over chunks are stored
//! once when their chunks come together. Called by replication, whose chunks come as they lie in
//! memory.

use super::lane::Lane;
use crate::read_path::{Reader, node_error};
use chunk_store::Result;
use chunk_store::recipe::{ChunkRun, fold, hole};
use format::recipe::{ObjectRoot, RecipeNode};
use std::collections::HashMap;
use units::Fingerprint;

/// See the module's head.
pub struct GrowingObject {
    root: ObjectRoot,
    len: u64,
    /// Nodes over nodes that no commit has made readable yet: of those over chunks each is stored
    /// once and not looked at again.
    unread: HashMap<Fingerprint, Vec<u8>>,
}

impl GrowingObject {
    /// `len` bytes over `base`; what is longer is a hole.
    pub fn over(base: ObjectRoot, len: u64) -> Self {
        Self {
            root: base,
            len,
            unread: HashMap::new(),
        }
    }

    /// `len` zero bytes in chunks of 2^`log2`.
    pub fn empty(len: u64, log2: u8) -> Self {
        Self::over(hole(len, log2), len)
    }

    /// Puts chunks in, which are stored; they may come in any order and do not overlap. `Invalid`
    /// when the object is not in fixed chunks.
    pub fn put(&mut self, runs: &mut [ChunkRun], reader: &Reader, lane: &mut Lane) -> Result<()> {
        runs.sort_unstable_by_key(|run| run.first);
        // None is taken out when it is replaced: another part of the object may be alike.
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
        self.root = fold(&self.root, self.len, runs, &mut load, &mut store)?;
        self.unread.extend(stored);
        Ok(())
    }

    /// The object as it is now.
    pub fn root(&self) -> ObjectRoot {
        self.root
    }

    /// Nodes in memory until a commit.
    pub fn nodes_in_memory(&self) -> usize {
        self.unread.len()
    }

    /// The session has committed: its nodes can be read.
    pub fn committed(&mut self) {
        self.unread.clear();
    }
}
