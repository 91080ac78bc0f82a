//! Restores of file trees: one thread walks, workers write files on all cores. The command
//! `restore` calls this.
//!
//! ```text
//! walk (snapshot beside target) --decide--> FileJob --> workers --> target
//!                               \--> hard links, after all files
//! ```
//!
//! Invariant: damaged and unwritable files are reported by name and left out, and the rest is
//! restored. A directory gets its metadata after everything in it. Everything counted as restored
//! exists. A dry run takes the same decisions and changes nothing.

mod decide;
mod files;
mod pending;
mod plan;
mod tally;
mod tree;
mod verify;
mod walk;

pub use crate::partial::DamagedRanges;
pub use decide::{Action, Refusal};
pub use plan::RestorePlan;
pub use tally::RestoreOutcome;
pub use tree::restore_tree;
pub use verify::{Verified, verify_tree};
