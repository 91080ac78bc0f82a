//! Volumes around volumes: read-only, counted, faulty, slow.
//!
//! Invariant: a decorator changes only what its name says and passes everything else through.
//! The program wraps exports with these; tests count and break things with them.

mod counted;
mod faulty;
mod read_only;
mod slow;

pub use counted::{Counted, Counts};
pub use faulty::{Failure, Faulty};
pub use read_only::ReadOnly;
pub use slow::Slow;
