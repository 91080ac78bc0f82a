//! The integration tests of this crate in one binary, which is linked once.

mod occupancy_model;
mod policies;
mod served_volumes;
