//! Known import cycles: none. `circles` reads this.
//!
//! Invariant: nothing is added.

/// Files of each cycle, sorted.
pub const CIRCLES: &[&[&str]] = &[];
