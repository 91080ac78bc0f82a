//! Backups of file trees: one thread walks, all lanes read and store. The command `backup` calls
//! this.
//!
//! ```text
//! walk (lists, compares with the parent) --files--> handing (order) --> lanes (read, store)
//!                                                                        |
//! root <------------ assemble (directories, from the leaves up) <--------+
//! ```
//!
//! Invariant: a file whose metadata equals the parent snapshot's is not opened. Unreadable files
//! are reported and left out, and the rest is stored (exit code 3). A directory is stored when its
//! last child is, so memory has the current path plus the queue.

mod assemble;
mod count;
mod file_work;
mod frozen;
mod handing;
mod kept_open;
mod level;
mod reading;
mod scan;
mod walk;
mod window;

pub use crate::filesystem::paced::{Pacer, in_pieces};
pub use count::count_trees;
pub use frozen::{FrozenOutcome, NotFrozen};
pub use handing::Order;
pub use scan::scan_trees;
pub use walk::{TreeOutcome, TreePlan, back_up_trees};
