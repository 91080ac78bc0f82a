//! Backing up file trees: walk here, read and store on all lanes.
//!
//! Invariant: a file whose metadata did not change since the parent snapshot is not opened; what
//! cannot be read is reported and left out, the rest is stored (exit code 3). Directories are
//! stored when their last child is, so memory is the path walked plus the queue.

mod assemble;
mod count;
mod file_work;
mod scan;
mod walk;

pub use count::count_trees;
pub use scan::scan_trees;
pub use walk::{TreeOutcome, TreePlan, back_up_trees};
