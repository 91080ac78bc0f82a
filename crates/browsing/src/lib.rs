//! Which snapshot a user means, which path in it, and how both are shown: [`choice`] resolves names
//! and filters, [`tree`] walks directories, [`listing`] formats text and JSON. The program's
//! commands call this.
//!
//! Invariant: nothing here changes a pool.
#![forbid(unsafe_code)]

pub mod choice;
pub mod listing;
pub mod tree;
