//! The integration tests of this crate in one binary, which is linked once.

mod back_pressure;
mod backed_up;
mod collect;
mod collect_as_stored;
mod collect_beside_direct_writes;
mod collect_beside_writers;
mod collect_by_owner;
mod collect_cached;
mod collect_clocks;
mod collect_crash;
mod collect_full;
mod collect_large_regions;
mod collect_leftovers;
mod collect_old_pools;

mod collect_small;
mod defrag;
mod defrag_resume;
mod defrag_streams;
mod fragmented;
mod open_snapshots;
mod parity_crash;
mod readers;
mod reads_beside_gc;
mod scrub;
mod scrub_crash;
mod scrub_medium;
mod scrub_order;
mod scrub_runs;
#[path = "../../volumes/tests/small_volumes/mod.rs"]
mod small_volumes;
