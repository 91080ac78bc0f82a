//! Restore after many generations: what ageing does to the places of the newest backup, and what maintenance
//! gives back.
//!
//! Invariant: the real store (ingest, deduplication, collector, defragmentation) over a simulated disk; of a
//! restore every read of a container is timed on the model of a disk. Called by `evaluation`, and by a small test.

pub mod history;
pub mod page;
pub mod placed;
pub mod pool;
