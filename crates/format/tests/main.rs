//! The integration tests of this crate in one binary, which is linked once.

mod decoders;
mod frozen;
mod mutations;
