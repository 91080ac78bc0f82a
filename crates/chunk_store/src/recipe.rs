//! Recipes: builds, changes, compares and walks the Merkle tree of an object. The read path, the
//! write path, the catalog, space, check and volumes call this.
//!
//! Invariant: nodes are written bottom-up, each once it is full, so memory is one path. A run of
//! zeroes is a hole at the highest level that it fills. Reads go through a closure that returns
//! verified nodes.

mod apply;
mod builder;
mod difference;
mod lost;
mod past_damage;
mod walk;

pub use apply::ChunkRun;
pub use apply::{apply, hole, replace};
pub use builder::ObjectBuilder;
pub use difference::visit_differences;
pub use lost::repair_object;
pub use lost::{LostPart, Repairing};
pub use past_damage::VisitPiece;
pub use past_damage::visit_past_damage;
pub use walk::{FixedLeaves, Leaf, fixed_chunk, visit_leaves, visit_nodes};
