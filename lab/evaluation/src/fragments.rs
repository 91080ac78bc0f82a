//! FragPicker's tables: a fragmented file, read in several ways, on models of an SSD and of a disk.
//! For each way of defragmentation they show what it writes and what it gains.
//!
//! The program `evaluation` calls this; so does a small test.
//! Invariant: trace, hot ranges and plans are the real ones (`crates/fragpicker`). Only the devices
//! and the file are models.

pub mod file;
pub mod load;
pub mod page;
pub mod runs;
