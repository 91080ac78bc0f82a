//! What keeps keys and passwords in the memory of the process.
//!
//! Invariant: from its first instant the process leaves no core dump, and no other process of the
//! same user may look into its memory. Called by `main`.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Switches core dumps and tracing by the same user off; best effort, as old kernels may refuse.
/// Programs that are started from here get their own setting back with `execve`.
pub fn keep_from_core_dumps() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn the_process_leaves_no_core_dump() {
        keep_from_core_dumps();
        let now = dumpable_behavior().unwrap();
        assert!(matches!(now, DumpableBehavior::NotDumpable));
    }
}
