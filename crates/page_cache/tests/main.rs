//! The integration tests of this crate in one binary, which is linked once.

mod classes;
mod duet;
mod duplicates;
mod hit_ratio;
mod model;
mod recording;
mod stress;
