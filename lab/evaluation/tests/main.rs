//! The integration tests of this crate in one binary, which is linked once.

mod ageing;
mod bars;
mod classes;
mod fragments;
mod maintenance;
mod pacing;
mod pages;
mod pieces;
mod rooms;
mod shipped;
mod streams;
