//! The integration tests of this crate in one binary, which is linked once.

mod copies;
mod repair;
mod replicate;
mod replicate_costs;
mod replicate_order;
#[path = "../../volumes/tests/small_volumes/mod.rs"]
mod small_volumes;
