//! Contains volumes around volumes: read-only, counted, faulty, slow.
//!
//! The program wraps exports with these; tests count requests and inject failures with them.
//! Invariant: a decorator changes only what its name says and passes everything else through.

mod counted;
mod faulty;
mod read_only;
mod slow;

pub use counted::{CallCounts, Counted};
pub use faulty::{Failure, Faulty};
pub use read_only::ReadOnly;
pub use slow::Slow;
