//! Protects keys and passwords in the memory of the process. `main` calls this.
//!
//! Invariant: from its start, the process leaves no core dump, and other processes of the same user
//! cannot read its memory.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Disables core dumps and tracing by the same user. Errors are ignored, because old kernels may
/// refuse. Programs that are started from here get the default back with `execve`.
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
