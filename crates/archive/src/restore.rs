//! Restoring file trees: walk here, write files on all cores.
//!
//! Invariant: what is damaged or cannot be written is reported by name and left out, the rest is
//! restored; a directory gets its metadata after everything in it. What is counted as restored is
//! there. A dry run takes the same decisions and changes nothing. Called by the restore command.

mod decide;
mod files;
mod partial;
mod pending;
mod plan;
mod tally;
mod tree;
mod verify;
mod walk;

pub use decide::{Action, Refusal};
pub use partial::DamagedRanges;
pub use plan::RestorePlan;
pub use tally::RestoreOutcome;
pub use tree::restore_tree;
pub use verify::verify_tree;
