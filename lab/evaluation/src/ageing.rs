//! Restore after many generations: how ageing scatters the newest backup, and what maintenance
//! restores.
//!
//! The program `evaluation` calls this; so does a small test.
//! Invariant: the real store (ingest, deduplication, garbage collection, defragmentation) runs over
//! a simulated disk. Every read of a container during a restore is timed on the model of a disk.

pub mod history;
pub mod page;
pub mod placed;
pub mod pool;
