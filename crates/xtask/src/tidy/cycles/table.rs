//! Known import cycles: none. `cycles` reads this.
//!
//! Invariant: nothing is added.

/// Files of each cycle, sorted.
pub const CYCLES: &[&[&str]] = &[];
