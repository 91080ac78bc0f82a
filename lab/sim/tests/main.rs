//! The integration tests of this crate in one binary, which is linked once.

mod conformance;
mod copy_limit;
mod crash_states;
mod defrag_crash;
mod dir_blobs;
mod dir_blobs_races;
mod explore;
mod fast_journal;
#[path = "../../../crates/maintenance/tests/fragmented/mod.rs"]
mod fragmented;
mod hot_chunks;
mod hot_chunks_by_server;
mod hot_chunks_crash;
mod journal_crash;
mod journal_dead;
mod liar;
mod pool_barriers;
mod pool_crash;
mod pool_faults;
mod pool_fencing;
mod pool_upgrade;
mod region_sizes;
mod register;
mod reservations;
mod reserve;
mod volume_barriers;
mod volume_crash;
