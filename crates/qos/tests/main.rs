//! The integration tests of this crate in one binary, which is linked once.

mod beside_users;
mod model;
