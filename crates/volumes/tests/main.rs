//! The integration tests of this crate in one binary, which is linked once.

mod access_patterns;
mod changes;
mod checkpoints_by_class;
mod crafted_journal;
mod crafted_journals;
mod fast_tier;
mod golden_fast_journal;
mod golden_reservations;
mod golden_volumes;
mod long_reads;
mod noise_volume;
mod readers_side_by_side;
mod small_volumes;
mod views;
mod volume_costs;
mod volumes;
mod volumes_damaged;
