//! The integration tests of this crate in one binary, which is linked once.

mod collect_primitives;
mod crafted;
mod crafted_pools;
mod image;
mod index_unwritable;
mod limits;
mod parity;
mod pool;
mod properties;
mod sessions;
