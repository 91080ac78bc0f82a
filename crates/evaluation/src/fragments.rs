//! FragPicker's tables: a file in pieces, read in several ways, on models of an SSD and of a disk; what each way
//! of defragmenting writes, and what it wins.
//!
//! Invariant: trace, hot ranges and plans are the real ones (`crates/fragpicker`); only devices and the file are
//! models. Called by `evaluation`, and by a small test.

pub mod file;
pub mod load;
pub mod page;
pub mod runs;
