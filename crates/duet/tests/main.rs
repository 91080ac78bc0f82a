//! The integration tests of this crate in one binary, which is linked once.

mod asked;
mod driver;
mod model;
mod published_defects;
mod reading;
mod scope;
mod world;
