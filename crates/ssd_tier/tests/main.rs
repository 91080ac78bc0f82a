//! The integration tests of this crate in one binary, which is linked once.

mod advice;
mod costs;
mod crash;
mod damage;
mod lookups;
mod model;
mod threads;
mod world;
